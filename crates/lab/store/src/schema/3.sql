-- Whether another seed would have given the same; not known of runs that are there already.
ALTER TABLE run ADD COLUMN deterministic INTEGER NOT NULL DEFAULT 0;
