/* backsight.recording.statistics._kernel: statistics of a list of arrays in one call, in plain C.
 *
 * It is given addresses, counts and kinds, or tensors, which it asks by name: no link to PyTorch, nothing but the stable
 * ABI of Python 3.10, so one wheel a platform serves every version of both. */

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>
#include <stdlib.h>

#include "_levels.h"
#include "_tensors.h"
#include "_threads.h"

enum {
    UNDER_THE_GIL = 64 * 1024,     /* bytes: less is done before another thread could hand the GIL back */
    BYTES_PER_THREAD = 512 * 1024  /* less is done before another thread has started */
};

static int chosen = -1; /* index of LEVELS */

typedef struct {
    const Array *arrays;
    Py_ssize_t array_count;
    int64_t chunk_count;
    Partial *partials;      /* one a chunk */
    int histogram;
    volatile int64_t next;  /* the chunk that is taken next */
} Job;

static int64_t chunks_of(int64_t count) { return count <= CHUNK ? 1 : (count + CHUNK - 1) / CHUNK; }

static void measure_chunk(const Job *job, const Array *array, int64_t chunk)
{
    const int64_t start = (chunk - array->first_chunk) * CHUNK, left = array->count - start;
    const int sample = !job->histogram ? 0 : array->count <= WHOLE ? PERIOD : SAMPLE;
    Partial *partial = &job->partials[chunk];
    partial->row = NO_NUMBERS;
    const char *address = array->address + start * SIZES[array->kind];
    LEVELS[chosen].stretch(address, left < CHUNK ? left : CHUNK, array->kind, sample, partial);
}

/* Takes chunks until none is left; each thread meets them in rising order, so its place in the list only moves on. */
static void take_chunks(void *shared)
{
    Job *job = shared;
    Py_ssize_t at = 0;
    for (int64_t chunk; (chunk = claim(&job->next)) < job->chunk_count;) {
        while (at + 1 < job->array_count && job->arrays[at + 1].first_chunk <= chunk)
            at++;
        measure_chunk(job, &job->arrays[at], chunk);
    }
}

/* The chunks of each array become one, always in the same order: the answer does not depend on the threads. */
static const Partial *gathered(const Job *job, Py_ssize_t i)
{
    Partial *whole = &job->partials[job->arrays[i].first_chunk];
    for (int64_t chunk = 1; chunk < chunks_of(job->arrays[i].count); chunk++)
        merge_partial(whole, whole + chunk);
    Row *row = &whole->row;
    row->min += 0.0; /* -0.0 becomes 0.0: which of the two was met is a matter of order */
    row->max += 0.0;
    if (finite_count(row) == 0)
        row->mean = row->min = row->max = NAN;
    return whole;
}

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

/* As `read_lists`, of tensors; -2, without an exception, where one of them is not plain. */
static int64_t read_tensors(PyObject *tensors, PyObject *types, PyObject *dtypes, Array *arrays, Py_ssize_t count)
{
    int64_t chunk = 0, bytes = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        const int plain = plain_array(PyList_GetItem(tensors, i), types, dtypes, &arrays[i]);
        if (plain < 0 && !PyErr_ExceptionMatches(PyExc_RuntimeError))
            return -1;
        if (plain != 1) { /* a RuntimeError: sparse, or inside vmap or grad, without memory of its own */
            PyErr_Clear();
            return -2;
        }
        arrays[i].first_chunk = chunk;
        chunk += chunks_of(arrays[i].count);
        bytes += arrays[i].count * SIZES[arrays[i].kind];
    }
    return bytes;
}

/* Measures the arrays into `job`, whose partials are for the caller to free; -1 with an exception set if it cannot. */
static int run(Job *job, int64_t bytes, long threads)
{
    const Py_ssize_t n = job->array_count;
    const int64_t worth = bytes / BYTES_PER_THREAD;
    job->chunk_count = n ? job->arrays[n - 1].first_chunk + chunks_of(job->arrays[n - 1].count) : 0;
    job->partials = calloc((size_t)job->chunk_count + 1, sizeof *job->partials);
    if (!job->partials) {
        PyErr_NoMemory();
        return -1;
    }
    if (bytes <= UNDER_THE_GIL) {
        take_chunks(job);
        return 0;
    }
    threads = threads > MOST_THREADS ? MOST_THREADS : threads;
    Py_BEGIN_ALLOW_THREADS
    on_threads((int)(worth < threads ? worth : threads), take_chunks, job);
    Py_END_ALLOW_THREADS
    return 0;
}

static PyObject *apart(const Job *job)
{
    const Py_ssize_t n = job->array_count, sampled_count = job->histogram ? n : 0;
    PyObject *rows = PyByteArray_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(Row));
    PyObject *histograms = PyByteArray_FromStringAndSize(NULL, sampled_count * BINS * (Py_ssize_t)sizeof(uint32_t));
    PyObject *sampled = PyByteArray_FromStringAndSize(NULL, sampled_count * (Py_ssize_t)sizeof(int64_t));
    PyObject *answer = rows && histograms && sampled ? PyTuple_Pack(3, rows, histograms, sampled) : NULL;
    for (Py_ssize_t i = 0; answer && i < n; i++) {
        const Partial *whole = gathered(job, i);
        ((Row *)PyByteArray_AsString(rows))[i] = whole->row;
        if (job->histogram) {
            memcpy(PyByteArray_AsString(histograms) + i * sizeof whole->histogram, whole->histogram,
                   sizeof whole->histogram);
            ((int64_t *)PyByteArray_AsString(sampled))[i] = whole->sampled;
        }
    }
    Py_XDECREF(rows);
    Py_XDECREF(histograms);
    Py_XDECREF(sampled);
    return answer;
}

/* One record after the other: a Partial each, or without histograms a Row, as which it begins. */
static PyObject *together(const Job *job)
{
    const size_t size = job->histogram ? sizeof(Partial) : sizeof(Row);
    PyObject *records = PyBytes_FromStringAndSize(NULL, job->array_count * (Py_ssize_t)size);
    for (Py_ssize_t i = 0; records && i < job->array_count; i++)
        memcpy(PyBytes_AsString(records) + i * size, gathered(job, i), size);
    return records;
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

static PyObject *read_all(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    (void)module;
    if (given != 5 || !PyList_Check(args[0]) || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2])
        || PyTuple_Size(args[2]) != KIND_COUNT) {
        PyErr_SetString(PyExc_TypeError, "read(tensors: list, types: tuple, dtypes: tuple, histogram, threads)");
        return NULL;
    }
    const Py_ssize_t n = PyList_Size(args[0]);
    const int histogram = PyObject_IsTrue(args[3]);
    const long threads = PyLong_AsLong(args[4]);
    if (histogram < 0 || PyErr_Occurred())
        return NULL;
    Array *arrays = malloc((size_t)(n + 1) * sizeof *arrays);
    if (!arrays)
        return PyErr_NoMemory();
    Job job = {arrays, n, 0, NULL, histogram, 0};
    const int64_t bytes = read_tensors(args[0], args[1], args[2], arrays, n);
    PyObject *answer = bytes >= 0 && run(&job, bytes, threads) == 0 ? together(&job) : NULL;
    free(job.partials);
    free(arrays);
    if (bytes == -2)
        Py_RETURN_NONE;
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
     "measure(addresses, counts, kinds, histogram, threads) -> (rows, histograms, sampled), as bytearrays"},
    {"read", (PyCFunction)(void (*)(void))read_all, METH_FASTCALL,
     "read(tensors, types, dtypes, histogram, threads) -> records as bytes, or None where a tensor is not plain: not of "
     "these types and dtypes, not on the CPU, not contiguous. Record i is row, histogram and sampled count, or the row."},
    {"levels", levels, METH_NOARGS, "The levels that this processor can run, slowest first."},
    {"level", level, METH_NOARGS, "The level in use."},
    {"use", use, METH_O, "Use this level from now on."},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    chosen = levels_here() - 1;
    if (intern_names() < 0)
        return -1;
    return PyModule_AddIntConstant(module, "BINS", BINS);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};
static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_kernel", "Statistics of a list of arrays.", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&MODULE); }
