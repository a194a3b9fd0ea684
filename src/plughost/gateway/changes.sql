-- claim: an Idempotency-Key for this request; no row when it was used before. Whoever comes second waits for the first.
INSERT INTO idempotency_keys (slot, status, sealed, created_at)
VALUES (:slot, 0, :nothing, :created_at)
ON CONFLICT DO NOTHING
RETURNING slot;

-- find: the request and the answer of a key
SELECT status, sealed FROM idempotency_keys WHERE slot = :slot;

-- forget: a key that is too old
DELETE FROM idempotency_keys WHERE slot = :slot AND created_at < :before;

-- answer: the answer to the request of a key
UPDATE idempotency_keys SET status = :status, sealed = :sealed WHERE slot = :slot;

-- prune: keys that are too old, some of them
DELETE FROM idempotency_keys WHERE slot IN (
  SELECT slot FROM idempotency_keys WHERE created_at < :before ORDER BY created_at LIMIT :limit);
