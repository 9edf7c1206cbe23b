/* One function run on several threads at once. They are started for the call and joined at its end: a large list takes
 * far longer than that, nothing is left over for a fork to lose, and no second OpenMP library fights PyTorch's. */
#ifndef BACKSIGHT_THREADS_H
#define BACKSIGHT_THREADS_H

#include <stdint.h>

enum { MOST_THREADS = 64 };
typedef void (*Work)(void *shared);

#ifdef _WIN32
#include <intrin.h>
#include <windows.h>

static int64_t claim(volatile int64_t *next) { return _InterlockedExchangeAdd64(next, 1); }

typedef struct { Work work; void *shared; } Errand;
static DWORD WINAPI run_errand(LPVOID errand)
{
    ((Errand *)errand)->work(((Errand *)errand)->shared);
    return 0;
}

static void on_threads(int count, Work work, void *shared)
{
    HANDLE started[MOST_THREADS];
    Errand errand = {work, shared};
    int running = 0;
    while (running < count - 1 && (started[running] = CreateThread(NULL, 0, run_errand, &errand, 0, NULL)) != NULL)
        running++;
    work(shared);
    for (int i = 0; i < running; i++) {
        WaitForSingleObject(started[i], INFINITE);
        CloseHandle(started[i]);
    }
}

#else
#include <pthread.h>
#include <signal.h>

static int64_t claim(volatile int64_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

typedef struct { Work work; void *shared; } Errand;
static void *run_errand(void *errand)
{
    ((Errand *)errand)->work(((Errand *)errand)->shared);
    return NULL;
}

/* Threads that cannot be started are done without: the caller's own thread does whatever is left. */
static void on_threads(int count, Work work, void *shared)
{
    pthread_t started[MOST_THREADS];
    Errand errand = {work, shared};
    int running = 0;
    sigset_t every_signal, before;
    sigfillset(&every_signal);
    pthread_sigmask(SIG_SETMASK, &every_signal, &before); /* signals stay with the program's own threads */
    while (running < count - 1 && pthread_create(&started[running], NULL, run_errand, &errand) == 0)
        running++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(shared);
    for (int i = 0; i < running; i++)
        pthread_join(started[i], NULL);
}
#endif

#endif
