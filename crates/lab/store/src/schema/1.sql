-- The first form of the store. docs/store.md explains it to who opens it with other programs.
-- A published form never changes: what a later version needs, a later script of this folder adds.

-- Where and with what a run was made. Each distinct set stands here once.
CREATE TABLE provenance (
    id         INTEGER PRIMARY KEY,
    digest     TEXT NOT NULL UNIQUE,   -- SHA-256 of the columns below but the last
    build      TEXT NOT NULL,          -- version and commit of netrig
    os         TEXT NOT NULL,
    kernel     TEXT NOT NULL,
    cpu        TEXT NOT NULL,
    cpus       INTEGER NOT NULL,
    host       TEXT NOT NULL,
    settings   TEXT NOT NULL,          -- JSON object: sysctls, offloads and the like
    first_seen TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;

-- Experiment files, each version of a file once.
CREATE TABLE experiment (
    id     INTEGER PRIMARY KEY,
    name   TEXT NOT NULL,
    digest TEXT NOT NULL,              -- SHA-256 of the file
    file   TEXT NOT NULL,              -- its text
    added  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    UNIQUE (name, digest)
) STRICT;

-- One run: what one seed did at one point of an experiment on one substrate.
CREATE TABLE run (
    id          INTEGER PRIMARY KEY,
    identity    TEXT NOT NULL UNIQUE,  -- SHA-256 of all that decides its result
    substrate   TEXT NOT NULL,
    seed        INTEGER NOT NULL,      -- 64 bits; a seed above 2^63 - 1 stands here less 2^64
    status      TEXT NOT NULL CHECK (status IN ('ok', 'invalid', 'failed')),
    why         TEXT CHECK ((why IS NULL) = (status = 'ok')),
    offered     INTEGER,               -- packets over all links; these seven are null in a failed run
    duplicated  INTEGER,
    delivered   INTEGER,
    dropped     INTEGER,
    inside      INTEGER,
    events      INTEGER,
    lateness_ns INTEGER,
    took_s      REAL NOT NULL,         -- wall clock
    finished    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    provenance  INTEGER NOT NULL REFERENCES provenance (id)
) STRICT;

-- Which runs are replications of which points. Two experiments, and two points of one experiment, share
-- a run if nothing that decides its result differs between them.
CREATE TABLE replication (
    experiment INTEGER NOT NULL REFERENCES experiment (id),
    factors    TEXT NOT NULL,          -- JSON object: every factor with its level
    number     INTEGER NOT NULL,       -- from 1
    run        INTEGER NOT NULL REFERENCES run (id),
    PRIMARY KEY (experiment, factors, number, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX replication_of_run ON replication (run);

-- What was measured, reduced to one number for each response.
CREATE TABLE response (
    run       INTEGER NOT NULL REFERENCES run (id),
    name      TEXT NOT NULL,
    unit      TEXT NOT NULL,
    value     REAL,                    -- null if the run could not measure it
    why       TEXT,                    -- why it could not
    discarded INTEGER,                 -- what MSER-5 left out at the start, if it was asked
    too_short INTEGER,                 -- 1 if it left out more than half
    PRIMARY KEY (run, name),
    CHECK ((value IS NULL) = (why IS NOT NULL)),
    CHECK ((discarded IS NULL) = (too_short IS NULL))
) STRICT, WITHOUT ROWID;

-- Time series of a run that was asked for them.
CREATE TABLE series (
    run      INTEGER NOT NULL REFERENCES run (id),
    subject  TEXT NOT NULL,            -- 'flow/web', 'link/primary/forward'
    quantity TEXT NOT NULL,
    unit     TEXT NOT NULL,
    samples  INTEGER NOT NULL,
    parquet  BLOB NOT NULL,            -- a Parquet file: at_ns INT64, value DOUBLE
    PRIMARY KEY (run, subject, quantity)
) STRICT;

-- The time line in words of a run that was asked for it.
CREATE TABLE note (
    run     INTEGER NOT NULL REFERENCES run (id),
    line    INTEGER NOT NULL,          -- from 0, in the order of the run
    at_ns   INTEGER NOT NULL,
    subject TEXT NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (run, line)
) STRICT, WITHOUT ROWID;

-- For the shell and for data frames: one line for each response of each replication.
CREATE VIEW measured AS
SELECT experiment.name AS experiment, experiment.digest AS file, run.substrate, replication.factors,
       replication.number AS replication, run.seed, run.status, coalesce(run.why, response.why) AS why,
       response.name AS response, response.value, response.unit, provenance.build, run.identity
FROM replication
JOIN experiment ON experiment.id = replication.experiment
JOIN run ON run.id = replication.run
JOIN provenance ON provenance.id = run.provenance
LEFT JOIN response ON response.run = run.id;
