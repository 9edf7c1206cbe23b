/* Tensors as arrays, by the names of their attributes: no link to PyTorch.
 *
 * For small models this is most of what recording costs: in Python it takes three times as long. */
#ifndef BACKSIGHT_TENSORS_H
#define BACKSIGHT_TENSORS_H

#include <Python.h>
#include <stdint.h>

#include "_levels.h"

typedef struct { const char *address; int64_t count; int kind; int64_t first_chunk; } Array;

/* Where memory has been released, a view still has an address: its offset, which is below this. */
#define SURELY_MEMORY (UINT64_C(1) << 40)

enum { DTYPE, IS_CPU, IS_NEG, IS_CONTIGUOUS, DATA_PTR, NUMEL, NAME_COUNT };
static PyObject *names[NAME_COUNT]; /* interned once: to make a string of each for every tensor would cost the most */

static int intern_names(void)
{
    static const char *const spelled[NAME_COUNT] = {"dtype", "is_cpu", "is_neg", "is_contiguous", "data_ptr", "numel"};
    for (int i = 0; i < NAME_COUNT; i++)
        if (!names[i] && !(names[i] = PyUnicode_InternFromString(spelled[i])))
            return -1;
    return 0;
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

/* 1 if the tensor is a dense stretch of memory on the CPU, and then `array` tells which; 0 if not; -1 if it raised. */
static int plain_array(PyObject *tensor, PyObject *types, PyObject *dtypes, Array *array)
{
    if (place_in(types, (PyObject *)Py_TYPE(tensor)) < 0)
        return 0;
    PyObject *dtype = PyObject_GetAttr(tensor, names[DTYPE]);
    if (!dtype)
        return -1;
    array->kind = place_in(dtypes, dtype);
    Py_DECREF(dtype);
    if (array->kind < 0)
        return 0;
    int fits = answers(PyObject_GetAttr(tensor, names[IS_CPU]), Py_True);
    if (fits == 1)
        fits = answers(PyObject_CallMethodObjArgs(tensor, names[IS_NEG], NULL), Py_False);
    if (fits == 1)
        fits = answers(PyObject_CallMethodObjArgs(tensor, names[IS_CONTIGUOUS], NULL), Py_True);
    if (fits != 1)
        return fits;
    const uint64_t address = (uint64_t)whole_number(PyObject_CallMethodObjArgs(tensor, names[DATA_PTR], NULL));
    if (PyErr_Occurred())
        return -1;
    array->address = (const char *)(uintptr_t)address;
    array->count = whole_number(PyObject_CallMethodObjArgs(tensor, names[NUMEL], NULL));
    if (PyErr_Occurred())
        return -1;
    return address > SURELY_MEMORY && array->count > 0;
}

#endif
