/* Tensors as arrays: by DLPack's exchange functions, which PyTorch has from 2.10 on, or by the names of their
 * attributes. Neither needs a link to PyTorch.
 *
 * For small models this is most of what recording costs: in Python it takes five times as long. */
#ifndef BACKSIGHT_TENSORS_H
#define BACKSIGHT_TENSORS_H

#include <Python.h>
#include <stdint.h>

#include "_levels.h"

typedef struct { const char *address; int64_t count; int kind; int64_t first_chunk; } Array;

/* A tensor; `sizes` is its memory, and NULL where it has not been asked for its shape. */
typedef struct { Array array; int dimensions; const int64_t *sizes; } View;

/* Where memory has been released, a view still has an address: its offset, which is below this. */
#define SURELY_MEMORY (UINT64_C(1) << 40)

enum { DTYPE, IS_CPU, IS_NEG, IS_CONTIGUOUS, DATA_PTR, NUMEL, VERSION, ROW, ROWS, NAME_COUNT };
static PyObject *names[NAME_COUNT]; /* interned once: to make a string of each for every tensor would cost the most */

static int intern_names(void)
{
    static const char *const spelled[NAME_COUNT] = {
        "dtype", "is_cpu", "is_neg", "is_contiguous", "data_ptr", "numel", "_version", "row", "_rows"};
    for (int i = 0; i < NAME_COUNT; i++)
        if (!names[i] && !(names[i] = PyUnicode_InternFromString(spelled[i])))
            return -1;
    return 0;
}

/* What `connect` was given of PyTorch. */
static PyObject *plain_types, *plain_dtypes, *thread_count, *overridden;

/* dlpack.h, version 1; the one function of the table that fills in a struct of ours and makes no object. */
typedef struct { int32_t type, number; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
    void *data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t *shape, *strides; uint64_t byte_offset;
} DLTensor;
typedef struct {
    uint32_t major, minor;
    void *older, *allocate, *from_tensor, *to_tensor;
    int (*describe)(void *tensor, DLTensor *found);
    void *stream;
} DLPackExchange;
static int (*describe)(void *tensor, DLTensor *found);

enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static int kind_of(DLDataType dtype)
{
    switch (dtype.lanes == 1 ? dtype.code << 8 | dtype.bits : -1) {
    case DL_FLOAT << 8 | 32: return KIND_FLOAT32;
    case DL_FLOAT << 8 | 64: return KIND_FLOAT64;
    case DL_BFLOAT << 8 | 16: return KIND_BFLOAT16;
    case DL_FLOAT << 8 | 16: return KIND_FLOAT16;
    case DL_INT << 8 | 8: return KIND_INT8;
    case DL_INT << 8 | 16: return KIND_INT16;
    case DL_INT << 8 | 32: return KIND_INT32;
    case DL_INT << 8 | 64: return KIND_INT64;
    case DL_UINT << 8 | 8: return KIND_UINT8;
    case DL_BOOL << 8 | 8: return KIND_BOOL;
    default: return -1;
    }
}

/* The place of an object in a tuple, by identity, or -1. */
static int place_in(PyObject *tuple, PyObject *object)
{
    const Py_ssize_t size = PyTuple_Size(tuple);
    for (Py_ssize_t i = 0; i < size; i++)
        if (PyTuple_GetItem(tuple, i) == object)
            return (int)i;
    return -1;
}

/* 1 if an attribute or method gave the `expected` answer, 0 if another, -1 if it raised. */
static int answers(PyObject *answer, PyObject *expected)
{
    Py_XDECREF(answer); /* True and False outlive this */
    return answer ? answer == expected : -1;
}

static int64_t whole_number(PyObject *answer)
{
    const int64_t number = answer ? PyLong_AsLongLong(answer) : -1;
    Py_XDECREF(answer);
    return number;
}

/* As `plain_view`, but for the type, by DLPack. */
static int described(PyObject *tensor, View *view)
{
    DLTensor found;
    if (describe(tensor, &found) != 0)
        return -1;
    int64_t count = 1;
    for (int i = found.ndim - 1; i >= 0; count *= found.shape[i--])
        if (found.strides && found.strides[i] != count && found.shape[i] != 1)
            return 0;
    const char *address = (const char *)found.data + found.byte_offset;
    view->array = (Array){address, count, kind_of(found.dtype), 0};
    view->dimensions = found.ndim;
    view->sizes = found.shape;
    return found.device.type == DL_CPU && view->array.kind >= 0;
}

/* The same by attributes. */
static int asked(PyObject *tensor, View *view)
{
    PyObject *dtype = PyObject_GetAttr(tensor, names[DTYPE]);
    if (!dtype)
        return -1;
    *view = (View){{NULL, 0, place_in(plain_dtypes, dtype), 0}, 0, NULL};
    Py_DECREF(dtype);
    if (view->array.kind < 0)
        return 0;
    int fits = answers(PyObject_GetAttr(tensor, names[IS_CPU]), Py_True);
    if (fits == 1)
        fits = answers(PyObject_CallMethodObjArgs(tensor, names[IS_CONTIGUOUS], NULL), Py_True);
    if (fits != 1)
        return fits;
    view->array.address = (const char *)(uintptr_t)whole_number(
        PyObject_CallMethodObjArgs(tensor, names[DATA_PTR], NULL));
    if (PyErr_Occurred())
        return -1;
    view->array.count = whole_number(PyObject_CallMethodObjArgs(tensor, names[NUMEL], NULL));
    return PyErr_Occurred() ? -1 : 1;
}

/* 1 if the tensor is a dense stretch of memory on the CPU, and then `view` tells which; 0 if not; -1 with an exception
 * set. What PyTorch refuses (sparse, or inside vmap or grad: no memory of its own) is not plain, and no error. */
static int plain_view(PyObject *tensor, View *view)
{
    if (!plain_types || place_in(plain_types, (PyObject *)Py_TYPE(tensor)) < 0)
        return 0;
    int plain = describe ? described(tensor, view) : asked(tensor, view);
    if (plain == 1)
        plain = view->array.count > 0 && (uint64_t)(uintptr_t)view->array.address > SURELY_MEMORY;
    if (plain == 1)
        plain = answers(PyObject_CallMethodObjArgs(tensor, names[IS_NEG], NULL), Py_False);
    if (plain < 0 && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyErr_Clear();
        return 0;
    }
    return plain;
}

/* 1 if the user has overridden what tensors answer (a TorchFunctionMode): then C is not to ask them. */
static int are_overridden(void)
{
    return overridden ? answers(PyObject_CallNoArgs(overridden), Py_True) : 1;
}

static PyObject *connect(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *types, *dtypes, *threads, *mode, *exchange;
    if (!PyArg_ParseTuple(args, "O!O!OOO", &PyTuple_Type, &types, &PyTuple_Type, &dtypes, &threads, &mode, &exchange))
        return NULL;
    if (PyTuple_Size(dtypes) != KIND_COUNT)
        return PyErr_Format(PyExc_ValueError, "there are %d kinds of numbers, and not %zd", KIND_COUNT,
                            PyTuple_Size(dtypes));
    const DLPackExchange *table = NULL;
    if (exchange != Py_None && !(table = PyCapsule_GetPointer(exchange, "dlpack_exchange_api")))
        return NULL;
    describe = table && table->major == 1 ? table->describe : NULL;
    PyObject *const given[] = {types, dtypes, threads, mode};
    PyObject **const held[] = {&plain_types, &plain_dtypes, &thread_count, &overridden};
    for (int i = 0; i < 4; i++) {
        Py_XDECREF(*held[i]);
        Py_INCREF(given[i]);
        *held[i] = given[i];
    }
    return PyBool_FromLong(describe != NULL);
}

#endif
