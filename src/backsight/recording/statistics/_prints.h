/* Fingerprints of a list of tensors, on several threads where that is worth while. */
#ifndef BACKSIGHT_PRINTS_H
#define BACKSIGHT_PRINTS_H

#include "_job.h"
#include "_strided.h"

enum {
    GROUP = 8,                         /* stretches that a thread takes at a time: what is strided is copied as one */
    BYTES_PER_PRINTER = 8 * 1024 * 1024 /* behind an operation PyTorch's own threads wait busily, where another thread
                                           would wait for its turn: less is done sooner by this one alone */
};

/* A tensor, and the number of the first of its stretches of SIGNS numbers. */
typedef struct { const char *address; int64_t count; int kind; int64_t first; Layout layout; } Printed;

typedef struct {
    const Printed *tensors;
    Py_ssize_t tensor_count;
    int64_t stretch_count;
    Imprint *parts;         /* one a stretch */
    volatile int64_t next;  /* the group that is taken next */
    volatile int64_t failed;
} PrintJob;

static int64_t stretches_of(int64_t count) { return count <= SIGNS ? 1 : (count + SIGNS - 1) / SIGNS; }

static int all_finite(const double *buckets)
{
    for (int b = 0; b < BUCKETS; b++)
        if (!isfinite(buckets[b]))
            return 0;
    return 1;
}

/* Part of a tensor in the order of its elements: from stretch `first` up to `end`. */
typedef struct { const Printed *tensor; int64_t first, end; char *room; size_t size; } Copy;

/* Finds where the numbers of a stretch lie in order: in the tensor, which may be empty and nowhere, or in a copy of it
 * and of what follows up to stretch `last`; -1 without memory for one. */
static int in_order(const Printed *tensor, int64_t stretch, int64_t last, Copy *copy, const char **source)
{
    const int64_t size = (int64_t)SIZES[tensor->kind], first = (stretch - tensor->first) * SIGNS;
    if (!tensor->layout.dimensions) {
        *source = tensor->address + first * size;
        return 0;
    }
    if (copy->tensor != tensor || stretch >= copy->end) {
        const int64_t end = tensor->first + stretches_of(tensor->count), left = tensor->count - first;
        const int64_t stretches = (last < end ? last : end) - stretch;
        const int64_t count = left < stretches * SIGNS ? left : stretches * SIGNS;
        if (copy->size < (size_t)(count * size)) {
            free(copy->room);
            copy->room = malloc((size_t)(count * size));
            copy->size = copy->room ? (size_t)(count * size) : 0;
            if (!copy->room)
                return -1;
        }
        gather(tensor->address, &tensor->layout, (int)size, first, count, copy->room);
        copy->tensor = tensor, copy->first = stretch, copy->end = stretch + stretches;
    }
    *source = copy->room + (stretch - copy->first) * SIGNS * size;
    return 0;
}

/* The fingerprint of one stretch, whose numbers lie in order at `source`. */
static void print_stretch(const Printed *tensor, int64_t stretch, const char *source, Imprint *part)
{
    const int64_t first = (stretch - tensor->first) * SIGNS, left = tensor->count - first;
    const int count = left < SIGNS ? (int)left : SIGNS;
    *part = (Imprint){0, NO_NUMBERS, {0}};
    LEVELS[chosen].imprint(source, count, tensor->kind, first, 0, part);
    if (!all_finite(part->buckets)) {
        memset(part->buckets, 0, sizeof part->buckets);
        LEVELS[chosen].imprint(source, count, tensor->kind, first, 1, part);
    }
}

/* Takes groups of stretches until none is left. */
static void take_stretches(void *shared)
{
    PrintJob *job = shared;
    Py_ssize_t at = 0;
    Copy copy = {NULL, 0, 0, NULL, 0};
    for (int64_t stretch; (stretch = claim(&job->next) * GROUP) < job->stretch_count;) {
        const int64_t last = stretch + GROUP < job->stretch_count ? stretch + GROUP : job->stretch_count;
        for (; stretch < last; stretch++) {
            while (at + 1 < job->tensor_count && job->tensors[at + 1].first <= stretch)
                at++;
            const Printed *tensor = &job->tensors[at];
            const char *source;
            if (in_order(tensor, stretch, last, &copy, &source) < 0) {
                claim(&job->failed);
                return;
            }
            print_stretch(tensor, stretch, source, &job->parts[stretch]);
        }
    }
    free(copy.room);
}

/* The stretches of a tensor become one, always in the same order. */
static Imprint whole_print(const PrintJob *job, Py_ssize_t i)
{
    const Printed *tensor = &job->tensors[i];
    Imprint whole = {0, NO_NUMBERS, {0}};
    for (int64_t k = 0; k < stretches_of(tensor->count); k++) {
        const Imprint *part = &job->parts[tensor->first + k];
        whole.hash += part->hash;
        merge(&whole.row, &part->row);
        for (int b = 0; b < BUCKETS; b++)
            whole.buckets[b] += is_turned(k) ? -part->buckets[b] : part->buckets[b];
    }
    whole.hash += (uint64_t)tensor->count * SIZES[tensor->kind] * MIX;
    settle(&whole.row);
    return whole;
}

/* Reads sizes and strides: a tuple of both, or None; -1 with an exception set. */
static int read_layout(PyObject *given, Printed *tensor)
{
    tensor->layout.dimensions = 0;
    if (given == Py_None)
        return 0;
    const Py_ssize_t n = PyTuple_Check(given) ? PyTuple_Size(given) / 2 : MOST_DIMENSIONS + 1;
    if (n > MOST_DIMENSIONS) {
        PyErr_SetString(PyExc_TypeError, "a layout is None, or a tuple of at most 64 sizes and as many strides");
        return -1;
    }
    int64_t count = 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        const int64_t size = PyLong_AsLongLong(PyTuple_GetItem(given, i));
        const int64_t stride = PyLong_AsLongLong(PyTuple_GetItem(given, n + i));
        if (PyErr_Occurred())
            return -1;
        count *= size;
        add_dimension(&tensor->layout, size, stride);
    }
    if (count != tensor->count) {
        PyErr_SetString(PyExc_ValueError, "the sizes do not make the count");
        return -1;
    }
    const int one = tensor->layout.dimensions == 1 && tensor->layout.strides[0] == 1;
    if (one || count == 0)
        tensor->layout.dimensions = 0;
    return 0;
}

/* Reads the lists; the bytes that the tensors hold together, or -1 with an exception set. */
static int64_t read_printed(PyObject *const *lists, Printed *tensors, Py_ssize_t count)
{
    int64_t stretch = 0, bytes = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        const uintptr_t address = (uintptr_t)PyLong_AsUnsignedLongLong(PyList_GetItem(lists[0], i));
        const int64_t length = PyLong_AsLongLong(PyList_GetItem(lists[1], i));
        const long kind = PyLong_AsLong(PyList_GetItem(lists[2], i));
        if (PyErr_Occurred())
            return -1;
        if (length < 0 || kind < 0 || kind >= KIND_COUNT || (length > 0 && address == 0)) {
            PyErr_Format(PyExc_ValueError, "tensor %zd: no such address, count or kind", i);
            return -1;
        }
        tensors[i].address = (const char *)address;
        tensors[i].count = length;
        tensors[i].kind = (int)kind;
        tensors[i].first = stretch;
        if (read_layout(PyList_GetItem(lists[3], i), &tensors[i]) < 0)
            return -1;
        stretch += stretches_of(length);
        bytes += length * SIZES[kind];
    }
    return bytes;
}

/* Makes the fingerprints; a bytearray of them, or NULL with an exception set. */
static PyObject *run_prints(PrintJob *job, int64_t bytes, long threads)
{
    const int64_t worth = bytes / BYTES_PER_PRINTER;
    threads = threads > MOST_THREADS ? MOST_THREADS : threads;
    job->parts = malloc((size_t)(job->stretch_count + 1) * sizeof *job->parts);
    if (job->parts && bytes <= UNDER_THE_GIL)
        take_stretches(job);
    else if (job->parts) {
        Py_BEGIN_ALLOW_THREADS
        on_threads((int)(worth < threads ? worth : threads), take_stretches, job);
        Py_END_ALLOW_THREADS
    }
    if (!job->parts || job->failed)
        return PyErr_NoMemory();
    PyObject *made = PyByteArray_FromStringAndSize(NULL, job->tensor_count * (Py_ssize_t)sizeof(Imprint));
    for (Py_ssize_t i = 0; made && i < job->tensor_count; i++) {
        const Imprint print = whole_print(job, i);
        memcpy(PyByteArray_AsString(made) + i * (Py_ssize_t)sizeof print, &print, sizeof print);
    }
    return made;
}

static PyObject *imprint(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    (void)module;
    for (int i = 0; i < 4; i++)
        if (given != 5 || !PyList_Check(args[i]) || PyList_Size(args[i]) != PyList_Size(args[0])) {
            PyErr_SetString(PyExc_TypeError, "imprint(addresses, counts, kinds, layouts: lists of one length, threads)");
            return NULL;
        }
    const Py_ssize_t n = PyList_Size(args[0]);
    const long threads = PyLong_AsLong(args[4]);
    if (PyErr_Occurred())
        return NULL;
    Printed *tensors = malloc((size_t)(n + 1) * sizeof *tensors);
    if (!tensors)
        return PyErr_NoMemory();
    PrintJob job = {tensors, n, 0, NULL, 0, 0};
    const int64_t bytes = read_printed(args, tensors, n);
    if (bytes >= 0 && n)
        job.stretch_count = tensors[n - 1].first + stretches_of(tensors[n - 1].count);
    PyObject *made = bytes >= 0 ? run_prints(&job, bytes, threads) : NULL;
    free(job.parts);
    free(tensors);
    return made;
}

#endif
