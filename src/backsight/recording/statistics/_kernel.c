/* backsight.recording.statistics._kernel: statistics of a list of arrays in one call, in plain C.
 *
 * It is given addresses, counts and kinds, or tensors, which it asks by name: no link to PyTorch, nothing but the stable
 * ABI of Python 3.10, so one wheel a platform serves every version of both. */

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include "_job.h"
#include "_prints.h"
#include "_sheet.h"

/* Reads the three lists into arrays; returns the bytes that they hold together, or -1 with an exception set. */
static int64_t read_lists(PyObject *const *lists, Array *arrays, Py_ssize_t count)
{
    int64_t chunk = 0, bytes = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        const uintptr_t address = (uintptr_t)PyLong_AsUnsignedLongLong(PyList_GetItem(lists[0], i));
        const int64_t length = PyLong_AsLongLong(PyList_GetItem(lists[1], i));
        const long kind = PyLong_AsLong(PyList_GetItem(lists[2], i));
        if (PyErr_Occurred())
            return -1;
        if (length < 0 || kind < 0 || kind >= KIND_COUNT || (length > 0 && address == 0)) {
            PyErr_Format(PyExc_ValueError, "array %zd: no such address, count or kind", i);
            return -1;
        }
        arrays[i] = (Array){(const char *)address, length, (int)kind, chunk};
        chunk += chunks_of(length);
        bytes += length * SIZES[kind];
    }
    return bytes;
}

static PyObject *apart(const Job *job)
{
    const Py_ssize_t n = job->array_count, sampled_count = job->histogram ? n : 0;
    PyObject *rows = PyByteArray_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(Row));
    PyObject *histograms = PyByteArray_FromStringAndSize(NULL, sampled_count * BINS * (Py_ssize_t)sizeof(uint32_t));
    PyObject *negatives = PyByteArray_FromStringAndSize(NULL, sampled_count * BINS * (Py_ssize_t)sizeof(uint32_t));
    PyObject *sampled = PyByteArray_FromStringAndSize(NULL, sampled_count * (Py_ssize_t)sizeof(int64_t));
    const int whole_there = rows && histograms && negatives && sampled;
    PyObject *answer = whole_there ? PyTuple_Pack(4, rows, histograms, negatives, sampled) : NULL;
    for (Py_ssize_t i = 0; answer && i < n; i++) {
        const Partial *whole = gathered(job, i);
        ((Row *)PyByteArray_AsString(rows))[i] = whole->row;
        if (job->histogram) {
            memcpy(PyByteArray_AsString(histograms) + i * sizeof whole->histogram, whole->histogram,
                   sizeof whole->histogram);
            memcpy(PyByteArray_AsString(negatives) + i * sizeof whole->negatives, whole->negatives,
                   sizeof whole->negatives);
            ((int64_t *)PyByteArray_AsString(sampled))[i] = whole->sampled;
        }
    }
    Py_XDECREF(rows);
    Py_XDECREF(histograms);
    Py_XDECREF(negatives);
    Py_XDECREF(sampled);
    return answer;
}

static PyObject *measure(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    (void)module;
    if (given != 5 || !PyList_Check(args[0]) || !PyList_Check(args[1]) || !PyList_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "measure(addresses: list, counts: list, kinds: list, histogram, threads)");
        return NULL;
    }
    const Py_ssize_t n = PyList_Size(args[0]);
    const int histogram = PyObject_IsTrue(args[3]);
    const long threads = PyLong_AsLong(args[4]);
    if (PyList_Size(args[1]) != n || PyList_Size(args[2]) != n) {
        PyErr_SetString(PyExc_ValueError, "addresses, counts and kinds are of different lengths");
        return NULL;
    }
    if (histogram < 0 || PyErr_Occurred())
        return NULL;
    Array *arrays = malloc((size_t)(n + 1) * sizeof *arrays);
    if (!arrays)
        return PyErr_NoMemory();
    Job job = {arrays, n, 0, NULL, histogram, 0};
    const int64_t bytes = read_lists(args, arrays, n);
    PyObject *answer = bytes >= 0 && run(&job, bytes, threads) == 0 ? apart(&job) : NULL;
    free(job.partials);
    free(arrays);
    return answer;
}

static PyObject *levels(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    const int count = levels_here();
    PyObject *names = PyTuple_New(count);
    for (int i = 0; names && i < count; i++)
        PyTuple_SetItem(names, i, PyUnicode_FromString(LEVELS[i].name));
    return names;
}

static PyObject *level(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyUnicode_FromString(LEVELS[chosen].name);
}

static PyObject *use(PyObject *module, PyObject *name)
{
    (void)module;
    for (int i = 0; i < levels_here(); i++)
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, LEVELS[i].name) == 0) {
            chosen = i;
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_ValueError, "this processor has no level %R", name);
}

static PyMethodDef METHODS[] = {
    {"measure", (PyCFunction)(void (*)(void))measure, METH_FASTCALL,
     "measure(addresses, counts, kinds, histogram, threads) -> (rows, histograms, their negative part, sampled), as "
     "bytearrays"},
    {"imprint", (PyCFunction)(void (*)(void))imprint, METH_FASTCALL,
     "imprint(addresses, counts, kinds, layouts, threads) -> fingerprints, as a bytearray; a layout is None where the "
     "tensor is contiguous, and else its sizes and strides as one tuple"},
    {"connect", connect, METH_VARARGS,
     "connect(types, dtypes, threads, overridden, exchange) -> whether exchange is used: the plain types, the dtypes in "
     "the order of kinds, functions that say how many threads to use and whether tensors are overridden by a mode, and "
     "DLPack's table of functions or None."},
    {"levels", levels, METH_NOARGS, "The levels that this processor can run, slowest first."},
    {"level", level, METH_NOARGS, "The level in use."},
    {"use", use, METH_O, "Use this level from now on."},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    chosen = levels_here() - 1;
    draw_signs();
    if (intern_names() < 0)
        return -1;
    PyObject *sheet = PyType_FromSpec(&SHEET);
    const int added = sheet ? PyModule_AddObjectRef(module, "Sheet", sheet) : -1;
    Py_XDECREF(sheet);
    return added < 0 ? -1 : PyModule_AddIntConstant(module, "BINS", BINS);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};
static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_kernel", "Statistics of a list of arrays.", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&MODULE); }
