/* backsight.recording.statistics._kernel: statistics of a list of arrays in one call, in plain C.
 *
 * It is given addresses, counts and kinds, and never sees a tensor: no link to PyTorch, nothing but the stable ABI of
 * Python 3.10, so one wheel a platform serves every version of both. */

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>
#include <stdlib.h>

#include "_levels.h"
#include "_threads.h"

enum {
    UNDER_THE_GIL = 64 * 1024,     /* bytes: less is done before another thread could hand the GIL back */
    BYTES_PER_THREAD = 512 * 1024  /* less is done before another thread has started */
};

static int chosen = -1; /* index of LEVELS */

typedef struct { const char *address; int64_t count; int kind; int64_t first_chunk; } Array;

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
static void gather(const Job *job, Row *rows, uint32_t *histograms, int64_t *sampled)
{
    for (Py_ssize_t i = 0; i < job->array_count; i++) {
        Partial *whole = &job->partials[job->arrays[i].first_chunk];
        for (int64_t chunk = 1; chunk < chunks_of(job->arrays[i].count); chunk++)
            merge_partial(whole, whole + chunk);
        rows[i] = whole->row;
        rows[i].min += 0.0; /* -0.0 becomes 0.0: which of the two was met is a matter of order */
        rows[i].max += 0.0;
        if (finite_count(&whole->row) == 0)
            rows[i].mean = rows[i].min = rows[i].max = NAN;
        if (job->histogram) {
            memcpy(histograms + i * BINS, whole->histogram, sizeof whole->histogram);
            sampled[i] = whole->sampled;
        }
    }
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

static void run(Job *job, int64_t bytes, long threads)
{
    const int64_t worth = bytes / BYTES_PER_THREAD;
    threads = threads > MOST_THREADS ? MOST_THREADS : threads;
    on_threads((int)(worth < threads ? worth : threads), take_chunks, job);
}

static PyObject *results(const Job *job)
{
    const Py_ssize_t n = job->array_count, sampled_count = job->histogram ? n : 0;
    PyObject *rows = PyByteArray_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(Row));
    PyObject *histograms = PyByteArray_FromStringAndSize(NULL, sampled_count * BINS * (Py_ssize_t)sizeof(uint32_t));
    PyObject *sampled = PyByteArray_FromStringAndSize(NULL, sampled_count * (Py_ssize_t)sizeof(int64_t));
    PyObject *answer = rows && histograms && sampled ? PyTuple_Pack(3, rows, histograms, sampled) : NULL;
    if (answer)
        gather(job, (Row *)PyByteArray_AsString(rows), (uint32_t *)PyByteArray_AsString(histograms),
               (int64_t *)PyByteArray_AsString(sampled));
    Py_XDECREF(rows);
    Py_XDECREF(histograms);
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
    const int64_t bytes = arrays ? read_lists(args, arrays, n) : 0;
    const int64_t chunks = n && bytes >= 0 ? arrays[n - 1].first_chunk + chunks_of(arrays[n - 1].count) : 0;
    Partial *partials = arrays && bytes >= 0 ? calloc((size_t)chunks + 1, sizeof *partials) : NULL;
    PyObject *answer = NULL;
    if (partials) {
        Job job = {arrays, n, chunks, partials, histogram, 0};
        if (bytes <= UNDER_THE_GIL) {
            take_chunks(&job);
        } else {
            Py_BEGIN_ALLOW_THREADS
            run(&job, bytes, threads);
            Py_END_ALLOW_THREADS
        }
        answer = results(&job);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    free(partials);
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
     "measure(addresses, counts, kinds, histogram, threads) -> (rows, histograms, sampled), as bytearrays"},
    {"levels", levels, METH_NOARGS, "The levels that this processor can run, slowest first."},
    {"level", level, METH_NOARGS, "The level in use."},
    {"use", use, METH_O, "Use this level from now on."},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    chosen = levels_here() - 1;
    return PyModule_AddIntConstant(module, "BINS", BINS);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};
static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_kernel", "Statistics of a list of arrays.", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&MODULE); }
