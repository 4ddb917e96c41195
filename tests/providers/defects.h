/* The defects a fixture can have. A fixture is fixture.c compiled with -DDEFECT=<one of these>;
 * without it the provider is correct. Each stands for one mistake a vendor can make. */
#ifndef TENON_TESTS_DEFECTS_H
#define TENON_TESTS_DEFECTS_H

enum {
    DEFECT_NONE,

    /* what running a request does wrong */
    DEFECT_WRONG_BIT,         /* the lowest bit of the last y is flipped */
    DEFECT_WRITES_PAST_Y,     /* one float after the last row of every y */
    DEFECT_WRITES_THEN_FAILS, /* y is written, then the answer is a failure */
    DEFECT_WRITES_X,          /* the input is changed */
    DEFECT_FAILS,             /* TENON_INTERNAL, y untouched */
    DEFECT_LOSES_DEVICE,      /* TENON_DEVICE_LOST, y untouched */
    DEFECT_DECLINES_RUN,      /* supports and prepare say yes, run declines */
    DEFECT_NONSENSE_STATUS,   /* a status outside the contract */
    DEFECT_FLUSHES_IN_RUN,    /* returns with subnormals flushed to zero */
    DEFECT_SLOW,              /* correct, but takes 20 ms a call */
    DEFECT_PRINTS,            /* prints to stdout in open and run */

    /* what preparing a weight does wrong */
    DEFECT_DECLINES_ALL,   /* supports says no to everything */
    DEFECT_NO_MEMORY,      /* prepare answers TENON_NOMEM: 1 GiB wanted, 1 MiB free */
    DEFECT_NULL_PREPARED,  /* prepare answers TENON_OK and no object */
    DEFECT_IGNORES_GROUPS, /* takes int4-group and applies a row's first scale to all of it */
    DEFECT_STALE_WEIGHT,   /* keeps prepared bytes by address, not by identity and generation */

    /* what opening does wrong, or tells */
    DEFECT_NULL_PROVIDER,      /* open answers TENON_OK and no object */
    DEFECT_NULL_DEVICE,        /* device_open likewise */
    DEFECT_FLUSHES_IN_OPEN,    /* returns with subnormals flushed to zero */
    DEFECT_CRASHES_IN_OPEN,    /* writes where nothing is mapped */
    DEFECT_SIGNAL_IN_OPEN,     /* installs a signal handler */
    DEFECT_LOCALE_IN_OPEN,     /* sets the locale */
    DEFECT_DIRECTORY_IN_OPEN,  /* changes the working directory */
    DEFECT_THREAD_IN_OPEN,     /* leaves a thread that close does not join */
    DEFECT_DESCRIPTOR_IN_OPEN, /* leaves a descriptor that close does not close */
    DEFECT_DRIVER_TOO_OLD,     /* answers DRIVER_TOO_OLD, 550 wanted, 535 available */
    DEFECT_RUNTIME_ABSENT,     /* answers RUNTIME_ABSENT */
    DEFECT_NO_DEVICE,          /* opens, has no device, says why */
    DEFECT_KINDS,              /* correct: device 0 is a software one, device 1 a discrete one */
    DEFECT_SOFTWARE_ONLY,      /* correct: its only device is a software one */

    /* what the loading of the file itself does (FIXTURE_AT_LOAD is set with these) */
    DEFECT_ABORTS_AT_LOAD,
    DEFECT_LOOPS_AT_LOAD,
    DEFECT_EXITS_AT_LOAD,
    DEFECT_ILLEGAL_AT_LOAD, /* an illegal instruction */
    DEFECT_FLUSHES_AT_LOAD, /* sets flush-to-zero, as -ffast-math does */
    DEFECT_PRINTS_AT_LOAD,
    DEFECT_LOGS_AT_UNLOAD, /* calls the host's log from a destructor, after close */
    DEFECT_MARKS_AT_LOAD,  /* creates the file named by FIXTURE_MARK: "my code ran" */
    DEFECT_GROWS_AT_LOAD   /* correct, but adds a byte to its own file: not the one judged */
};

#endif
