-- How long a run lasted, if its flows were done before its duration.
ALTER TABLE run ADD COLUMN lasted_ns INTEGER;
