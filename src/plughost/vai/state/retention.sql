-- keep_deliveries: the newest settled delivery that a limit of their count does not keep
SELECT settled_at AS at, number FROM deliveries WHERE settled_at IS NOT NULL
ORDER BY settled_at DESC, number DESC LIMIT 1 OFFSET :count;

-- keep_events: the newest event that a limit of their count does not keep
SELECT created_at AS at, number FROM events WHERE NOT pending
ORDER BY created_at DESC, number DESC LIMIT 1 OFFSET :count;

-- delete_deliveries: the oldest settled deliveries, up to one of them
DELETE FROM deliveries WHERE number IN (
  WITH old AS MATERIALIZED (
    SELECT number AS old_number FROM deliveries
    WHERE status IN ('acked', 'dead') AND settled_at <= :at AND (settled_at < :at OR number <= :number)
    ORDER BY settled_at, number LIMIT :limit
    FOR UPDATE SKIP LOCKED)
  SELECT old_number FROM old);

-- old_events: a page of events up to one of them, and whether each is kept for its deliveries
SELECT number, created_at,
  pending OR EXISTS (SELECT 1 FROM deliveries WHERE event_number = events.number) AS kept
FROM events
WHERE created_at <= :at AND (created_at < :at OR number <= :number)
  AND created_at >= :after_at AND (created_at > :after_at OR number > :after)
ORDER BY created_at, number LIMIT :limit;

-- delete_events: events that are handed over and have no delivery left
DELETE FROM events WHERE number = ANY(:numbers) AND NOT pending
  AND NOT EXISTS (SELECT 1 FROM deliveries WHERE event_number = events.number);

-- count_deliveries: how many delete_deliveries would remove in all
SELECT count(*) AS count FROM deliveries
WHERE status IN ('acked', 'dead') AND settled_at <= :at AND (settled_at < :at OR number <= :number);

-- count_events: how many events would be removed after these deliveries
SELECT count(*) AS count FROM events
WHERE NOT pending AND created_at <= :at AND (created_at < :at OR number <= :number)
  AND NOT EXISTS (
    SELECT 1 FROM deliveries d WHERE d.event_number = events.number
      AND NOT (d.status IN ('acked', 'dead') AND d.settled_at <= :delivery_at
        AND (d.settled_at < :delivery_at OR d.number <= :delivery_number)));
