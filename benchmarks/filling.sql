-- last_event: the number of the newest event
SELECT coalesce(max(number), 0) AS number FROM events;

-- events: events that are handed over already
INSERT INTO events (org_id, project_id, event, created_at, pending)
WITH RECURSIVE numbers (i) AS (
  SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < CAST(:count AS BIGINT))
SELECT :org_id, :project_id, CAST(:event AS TEXT), CAST(:at AS DOUBLE PRECISION), FALSE FROM numbers;

-- deliveries: one for each event after a number. Like those of real ones, their ids are in no order.
INSERT INTO deliveries (delivery_id, binding_id, org_id, project_id, event_number, attempt, due_at, status, settled_at)
SELECT 'del_' || CAST(number * 2654435761 % 4294967296 AS TEXT), 'bind_' || CAST(number % :bindings AS TEXT),
  org_id, project_id, number, CAST(:attempt AS INTEGER), CAST(:due_at AS DOUBLE PRECISION), CAST(:status AS TEXT),
  CAST(:settled_at AS DOUBLE PRECISION)
FROM events WHERE number > :after ORDER BY number;

-- acked: how many deliveries are acknowledged
SELECT count(*) AS count FROM deliveries WHERE status = 'acked';

-- records: invocations that have ended, of many tenants, exports and bindings; every tenth has failed
INSERT INTO invocations (invocation_id, host, org_id, project_id, export_id, binding_id, package_version, trace_id,
  started_at, started, status, finished)
WITH RECURSIVE numbers (i) AS (
  SELECT CAST(:first AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < CAST(:last AS BIGINT))
SELECT 'inv_' || id, 'host', 'org_' || CAST(i % 50 AS TEXT), 'project', 'export_' || CAST(i % 40 AS TEXT),
  'bind_' || CAST(i % 400 AS TEXT), '1.0.0', 'trace_' || id, CAST(:at AS DOUBLE PRECISION) + i,
  replace(CAST(:started AS TEXT), '#', id), CASE i % 10 WHEN 0 THEN 'failed' ELSE 'succeeded' END,
  replace(CAST(:finished AS TEXT), '#', id)
FROM (SELECT i, CAST(i * 2654435761 % 4294967296 AS TEXT) AS id FROM numbers) AS numbered;

-- indexes (sqlite): those that can be made anew after filling, which takes a third of the time
SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL;

-- indexes (postgresql): those that can be made anew after filling, which takes a third of the time
SELECT indexname AS name, indexdef AS sql FROM pg_indexes
WHERE schemaname = 'public' AND indexdef NOT LIKE 'CREATE UNIQUE%';

-- vacuum: what PostgreSQL does by itself after so many new rows, within a minute or two
VACUUM ANALYZE;

-- checkpoint: what PostgreSQL does by itself every few minutes
CHECKPOINT;
