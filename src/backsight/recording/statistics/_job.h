/* Arrays, measured chunk by chunk, on several threads where that is worth while. */
#ifndef BACKSIGHT_JOB_H
#define BACKSIGHT_JOB_H

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
    settle(&whole->row);
    return whole;
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

#endif
