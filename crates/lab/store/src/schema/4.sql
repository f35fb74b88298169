-- What must stand beside the figures of a run that count: a JSON array of objects with `text` and `details`; null if nothing must.
ALTER TABLE run ADD COLUMN remarks TEXT;
