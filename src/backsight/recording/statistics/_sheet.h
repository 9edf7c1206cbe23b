/* Sheet: the numbers of the tensors of one step, taken down one after the other, each beside its row.
 *
 * It is what a training waits for at every module, so all that can be is done in one call: to see that a tensor is
 * plain, to measure it, and to find its row, which is mostly the row that it had in the step before. */
#ifndef BACKSIGHT_SHEET_H
#define BACKSIGHT_SHEET_H

#include "_job.h"

enum {
    KNOWN = 64,          /* tensors that are remembered, so as not to be read again */
    WORTH_KNOWING = 1024 /* numbers: smaller tensors are read again sooner than remembered */
};

/* A record as it is handed out; without histograms it is the row alone. What is in the bins that are not empty follows
 * elsewhere, packed as in the file: LEB128, seven bits a byte, the lowest first; of all numbers and of negative ones. */
typedef struct { Row row; int64_t sampled; uint64_t filled, below; } Record;

enum { LONGEST = 5 * BINS }; /* bytes of a packed histogram */

typedef struct { char *bytes; size_t size, room; } Buffer;

/* Where something of the sheet begins, or ends. */
typedef struct { size_t counts, negatives; } Place;

typedef struct { PyObject *tensor, *reference; int64_t version; size_t record; Place from, to; } Known;

typedef struct {
    PyObject_HEAD
    PyObject *rows;   /* a list: for each record (slot, call, shape, dtype) */
    Buffer records, counts, negatives;
    Place last; /* where those of the last record begin */
    int histogram, remembers;
    Known known[KNOWN]; /* by the address of the object, which is no proof: the reference is */
} Sheet;

static size_t record_size(const Sheet *sheet) { return sheet->histogram ? sizeof(Record) : sizeof(Row); }

/* Makes room for so many bytes more; -1 with an exception set if there is none. */
static int extend(Buffer *buffer, size_t by)
{
    if (buffer->size + by <= buffer->room)
        return 0;
    const size_t room = 2 * buffer->room + by + 1024;
    char *bytes = realloc(buffer->bytes, room);
    if (!bytes) {
        PyErr_NoMemory();
        return -1;
    }
    buffer->bytes = bytes;
    buffer->room = room;
    return 0;
}

static void append(Buffer *buffer, const void *bytes, size_t size)
{
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

static char *packed(char *out, uint32_t left)
{
    for (; left >= 0x80; left >>= 7)
        *out++ = (char)(left | 0x80);
    *out++ = (char)left;
    return out;
}

static Place place_in_sheet(const Sheet *sheet) { return (Place){sheet->counts.size, sheet->negatives.size}; }

/* Packs the bins that are not empty, and says in the record which these are. */
static void pack(const Partial *measured, Sheet *sheet, Record *record)
{
    char *out = sheet->counts.bytes + sheet->counts.size, *below = sheet->negatives.bytes + sheet->negatives.size;
    for (int bin = 0; bin < BINS; bin++) {
        if (!measured->histogram[bin])
            continue;
        record->filled |= UINT64_C(1) << bin;
        out = packed(out, measured->histogram[bin]);
        if (measured->negatives[bin]) {
            record->below |= UINT64_C(1) << bin;
            below = packed(below, measured->negatives[bin]);
        }
    }
    sheet->counts.size = (size_t)(out - sheet->counts.bytes);
    sheet->negatives.size = (size_t)(below - sheet->negatives.bytes);
}

/* Empties the sheet, but for the rows, which are not its own. */
static void clear(Sheet *sheet)
{
    sheet->records.size = sheet->counts.size = sheet->negatives.size = 0;
    for (int i = 0; sheet->remembers && i < KNOWN; i++) {
        Py_XDECREF(sheet->known[i].reference);
        sheet->known[i] = (Known){NULL, NULL, 0, 0, {0, 0}, {0, 0}};
    }
    sheet->remembers = 0;
}

static Known *place_of(Sheet *sheet, PyObject *tensor) { return &sheet->known[((uintptr_t)tensor >> 5) % KNOWN]; }

/* The version of a tensor, which every in-place operation raises; -1 for inference tensors, which have none. */
static int64_t version_of(PyObject *tensor)
{
    const int64_t version = whole_number(PyObject_GetAttr(tensor, names[VERSION]));
    if (version < 0)
        PyErr_Clear();
    return version;
}

/* What is known of a tensor that has been read at this version, or NULL. */
static const Known *known_as(Sheet *sheet, PyObject *tensor, int64_t version)
{
    const Known *known = place_of(sheet, tensor);
    if (known->tensor != tensor || known->version != version)
        return NULL;
    PyObject *alive = PyObject_CallNoArgs(known->reference);
    Py_XDECREF(alive);
    if (!alive)
        PyErr_Clear();
    return alive == tensor ? known : NULL;
}

/* Remembers that the last record is of this tensor, and takes over the reference to it. */
static void remember(Sheet *sheet, PyObject *tensor, PyObject *reference, int64_t version)
{
    Known *known = place_of(sheet, tensor);
    Py_XDECREF(known->reference);
    sheet->remembers = 1;
    *known = (Known){tensor, reference, version, sheet->records.size - record_size(sheet), sheet->last,
                     place_in_sheet(sheet)};
}

/* Whether this is the row of a tensor of this shape and type. */
static int fits(PyObject *row, const View *view)
{
    PyObject *shape = PyTuple_GetItem(row, 2);
    if (!view->sizes || PyTuple_GetItem(row, 3) != PyTuple_GetItem(plain_dtypes, view->array.kind)
        || PyTuple_Size(shape) != view->dimensions)
        return 0;
    for (int i = 0; i < view->dimensions; i++)
        if (PyLong_AsLongLong(PyTuple_GetItem(shape, i)) != view->sizes[i])
            return 0;
    return 1;
}

/* The row of a tensor, as a new reference: the one that the slot has for this call, or what `slot.row` returns. */
static PyObject *row_of(PyObject *slot, PyObject *call, PyObject *tensor, const View *view)
{
    PyObject *rows = PyObject_GetAttr(slot, names[ROWS]);
    PyObject *row = rows && PyDict_Check(rows) ? PyDict_GetItemWithError(rows, call) : NULL;
    const int found = row && fits(row, view);
    if (found)
        Py_INCREF(row);
    Py_XDECREF(rows);
    return found ? row : PyErr_Occurred() ? NULL : PyObject_CallMethodObjArgs(slot, names[ROW], call, tensor, NULL);
}

/* Adds a row, which it takes over, and makes room for its record; -1 with an exception set. */
static int add_row(Sheet *sheet, PyObject *row)
{
    int added = extend(&sheet->records, sizeof(Record));
    if (added == 0)
        added = extend(&sheet->counts, LONGEST);
    if (added == 0)
        added = extend(&sheet->negatives, LONGEST);
    if (added == 0)
        added = PyList_Append(sheet->rows, row);
    Py_DECREF(row);
    return added;
}

/* Adds what was measured, with its row, which it takes over. Nobody else runs between the two. */
static int put(Sheet *sheet, const Partial *measured, PyObject *row)
{
    if (add_row(sheet, row) < 0)
        return -1;
    Record record = {measured->row, measured->sampled, 0, 0};
    sheet->last = place_in_sheet(sheet);
    if (sheet->histogram)
        pack(measured, sheet, &record);
    append(&sheet->records, &record, record_size(sheet));
    return 0;
}

/* The same for a tensor whose numbers are there already. */
static int put_again(Sheet *sheet, const Known *known, PyObject *row)
{
    const Known at = *known;
    if (add_row(sheet, row) < 0)
        return -1;
    append(&sheet->records, sheet->records.bytes + at.record, record_size(sheet));
    append(&sheet->counts, sheet->counts.bytes + at.from.counts, at.to.counts - at.from.counts);
    append(&sheet->negatives, sheet->negatives.bytes + at.from.negatives, at.to.negatives - at.from.negatives);
    return 0;
}

/* Measures arrays and adds their records, with the rows that belong to them, which it takes over. */
static int measure_into(Sheet *sheet, const Array *arrays, PyObject **rows, Py_ssize_t n, int64_t bytes)
{
    long threads = 1;
    if (bytes > BYTES_PER_THREAD)
        threads = (long)whole_number(PyObject_CallNoArgs(thread_count));
    Job job = {arrays, n, 0, NULL, sheet->histogram, 0};
    int done = PyErr_Occurred() ? -1 : run(&job, bytes, threads);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (done == 0)
            done = put(sheet, gathered(&job, i), rows[i]);
        else
            Py_DECREF(rows[i]);
    }
    free(job.partials);
    return done;
}

static PyObject *note(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    Sheet *sheet = (Sheet *)self;
    View view;
    if (given != 3) {
        PyErr_SetString(PyExc_TypeError, "note(slot, call, tensor)");
        return NULL;
    }
    PyObject *const tensor = args[2];
    const int others = are_overridden(), plain = others == 0 ? plain_view(tensor, &view) : 0;
    if (others < 0 || plain < 0)
        return NULL;
    if (!plain)
        return PyBool_FromLong(0);
    const int64_t version = view.array.count < WORTH_KNOWING ? -1 : version_of(tensor);
    PyObject *row = row_of(args[0], args[1], tensor, &view);
    if (!row)
        return NULL;
    const Known *known = version < 0 ? NULL : known_as(sheet, tensor, version);
    if (known)
        return put_again(sheet, known, row) < 0 ? NULL : PyBool_FromLong(1);
    PyObject *reference = version < 0 ? NULL : PyWeakref_NewRef(tensor, NULL);
    if (version >= 0 && !reference)
        PyErr_Clear(); /* then it is read again */
    const int done = measure_into(sheet, &view.array, &row, 1, view.array.count * SIZES[view.array.kind]);
    if (done == 0 && reference)
        remember(sheet, tensor, reference, version);
    else
        Py_XDECREF(reference);
    return done < 0 ? NULL : PyBool_FromLong(1);
}

/* Finds array and row of each entry; the bytes that they hold together, -1 with an exception set, -2 where a tensor is
 * not plain. `*found` is how many rows there are to be let go of. */
static int64_t look_through(PyObject *entries, Py_ssize_t n, Array *arrays, PyObject **rows, Py_ssize_t *found)
{
    int64_t chunk = 0, bytes = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        View view;
        PyObject *entry = PyList_GetItem(entries, i);
        if (!entry || !PyTuple_Check(entry) || PyTuple_Size(entry) != 3) {
            PyErr_SetString(PyExc_TypeError, "an entry is (slot, call, tensor)");
            return -1;
        }
        PyObject *const tensor = PyTuple_GetItem(entry, 2);
        const int plain = plain_view(tensor, &view);
        if (plain != 1)
            return plain < 0 ? -1 : -2;
        rows[i] = row_of(PyTuple_GetItem(entry, 0), PyTuple_GetItem(entry, 1), tensor, &view);
        if (!rows[i])
            return -1;
        *found = i + 1;
        arrays[i] = view.array;
        arrays[i].first_chunk = chunk;
        chunk += chunks_of(view.array.count);
        bytes += view.array.count * SIZES[view.array.kind];
    }
    return bytes;
}

static PyObject *note_all(PyObject *self, PyObject *entries)
{
    if (!PyList_Check(entries)) {
        PyErr_SetString(PyExc_TypeError, "note_all(entries: list)");
        return NULL;
    }
    const Py_ssize_t n = PyList_Size(entries);
    Py_ssize_t found = 0;
    const int others = are_overridden();
    if (others)
        return others < 0 ? NULL : PyBool_FromLong(0);
    Array *arrays = malloc((size_t)(n + 1) * sizeof *arrays);
    PyObject **rows = malloc((size_t)(n + 1) * sizeof *rows);
    const int64_t bytes = arrays && rows ? look_through(entries, n, arrays, rows, &found) : -1;
    int done = -1;
    if (bytes >= 0)
        done = measure_into((Sheet *)self, arrays, rows, n, bytes);
    else
        while (found > 0)
            Py_DECREF(rows[--found]);
    if (!arrays || !rows)
        PyErr_NoMemory();
    free(arrays);
    free(rows);
    return bytes == -2 ? PyBool_FromLong(0) : done < 0 ? NULL : PyBool_FromLong(1);
}

static PyObject *take(PyObject *self, PyObject *none)
{
    (void)none;
    Sheet *sheet = (Sheet *)self;
    PyObject *records = PyBytes_FromStringAndSize(sheet->records.bytes, (Py_ssize_t)sheet->records.size);
    PyObject *counts = PyBytes_FromStringAndSize(sheet->counts.bytes, (Py_ssize_t)sheet->counts.size);
    PyObject *negatives = PyBytes_FromStringAndSize(sheet->negatives.bytes, (Py_ssize_t)sheet->negatives.size);
    PyObject *taken = records && counts && negatives ? PyTuple_Pack(3, records, counts, negatives) : NULL;
    Py_XDECREF(records);
    Py_XDECREF(counts);
    Py_XDECREF(negatives);
    if (taken)
        clear(sheet);
    return taken;
}

/* What is on the sheet from before is gone. Its memory is used again: that is in the caches already. */
static PyObject *begin(PyObject *self, PyObject *rows)
{
    Sheet *sheet = (Sheet *)self;
    if (!PyList_Check(rows)) {
        PyErr_SetString(PyExc_TypeError, "begin(rows: list)");
        return NULL;
    }
    PyObject *before = sheet->rows;
    Py_INCREF(rows);
    sheet->rows = rows;
    Py_DECREF(before);
    clear(sheet);
    Py_RETURN_NONE;
}

static PyObject *new_sheet(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    PyObject *rows;
    int histogram;
    if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &rows, &histogram))
        return NULL;
    Sheet *sheet = (Sheet *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0); /* all zeros */
    if (sheet) {
        Py_INCREF(rows);
        sheet->rows = rows;
        sheet->histogram = histogram;
    }
    return (PyObject *)sheet;
}

static void end_sheet(PyObject *self)
{
    Sheet *sheet = (Sheet *)self;
    PyTypeObject *type = Py_TYPE(self);
    clear(sheet);
    free(sheet->records.bytes);
    free(sheet->counts.bytes);
    free(sheet->negatives.bytes);
    Py_XDECREF(sheet->rows);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef SHEET_METHODS[] = {
    {"note", (PyCFunction)(void (*)(void))note, METH_FASTCALL,
     "note(slot, call, tensor) -> whether it is plain: then it has been measured, and its row added."},
    {"note_all", note_all, METH_O, "note_all([(slot, call, tensor), ...]): the same of many, all of them or none."},
    {"begin", begin, METH_O, "begin(rows): empty the sheet, and from here on add rows to this list."},
    {"take", take, METH_NOARGS,
     "take() -> (records, counts, negatives): row, sampled count, the bins that are filled, and those with negative "
     "numbers, of one tensor after the other, or without histograms the row; and what is in these bins, packed, of all "
     "numbers and of negative ones. The sheet is empty then."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SHEET_SLOTS[] = {
    {Py_tp_new, (void *)new_sheet}, {Py_tp_dealloc, (void *)end_sheet}, {Py_tp_methods, SHEET_METHODS}, {0, NULL},
};
static PyType_Spec SHEET = {
    "backsight.recording.statistics._kernel.Sheet", sizeof(Sheet), 0, Py_TPFLAGS_DEFAULT, SHEET_SLOTS};

#endif
