-- insert_started (sqlite): invocations that began, with their ends where these came in the same batch
INSERT INTO invocations (invocation_id, host, org_id, project_id, export_id, binding_id, package_version,
  session_id, chain_id, run_id, trace_id, started_at, started, status, finished, start_key)
SELECT s.id, :host, s.line ->> 'org_id', coalesce(s.line ->> 'project_id', ''), s.line ->> '$.bound.export_id',
  s.line ->> '$.bound.binding_id', s.line ->> '$.bound.package_version', s.line ->> 'session_id',
  s.line ->> 'chain_id', s.line ->> 'run_id', s.line ->> 'trace_id', s.line ->> 'started_at', s.line,
  f.line ->> 'status', f.line, :start_key
FROM (SELECT key AS place, value ->> 'invocation_id' AS id, value AS line FROM json_each(:started)) s
LEFT JOIN (SELECT key AS place, value ->> 'invocation_id' AS id, value AS line FROM json_each(:finished)) f
  ON f.id = s.id
WHERE TRUE ORDER BY s.place, f.place
ON CONFLICT DO NOTHING;

-- insert_started (postgresql): invocations that began, with their ends where these came in the same batch
INSERT INTO invocations (invocation_id, host, org_id, project_id, export_id, binding_id, package_version,
  session_id, chain_id, run_id, trace_id, started_at, started, status, finished, start_key)
SELECT s.line ->> 'invocation_id', :host, s.line ->> 'org_id', coalesce(s.line ->> 'project_id', ''),
  s.line -> 'bound' ->> 'export_id', s.line -> 'bound' ->> 'binding_id', s.line -> 'bound' ->> 'package_version',
  s.line ->> 'session_id', s.line ->> 'chain_id', s.line ->> 'run_id', s.line ->> 'trace_id',
  CAST(s.line ->> 'started_at' AS DOUBLE PRECISION), CAST(s.line AS TEXT), f.line ->> 'status',
  CAST(f.line AS TEXT), CAST(:start_key AS TEXT)
FROM json_array_elements(CAST(CAST(:started AS TEXT) AS JSON)) WITH ORDINALITY AS s (line, place)
LEFT JOIN json_array_elements(CAST(CAST(:finished AS TEXT) AS JSON)) WITH ORDINALITY AS f (line, place)
  ON f.line ->> 'invocation_id' = s.line ->> 'invocation_id'
ORDER BY s.place, f.place
ON CONFLICT DO NOTHING;

-- insert_events (sqlite): events; those of an unknown invocation, such as one that was pruned, are not stored
INSERT INTO invocation_events (invocation_id, number, logged)
SELECT value ->> 'invocation_id', value ->> 'number', value FROM json_each(:events)
WHERE EXISTS (SELECT 1 FROM invocations WHERE invocation_id = value ->> 'invocation_id')
ON CONFLICT DO NOTHING;

-- insert_events (postgresql): events; those of an unknown invocation, such as one that was pruned, are not stored
INSERT INTO invocation_events (invocation_id, number, logged)
SELECT line ->> 'invocation_id', CAST(line ->> 'number' AS INTEGER), CAST(line AS TEXT)
FROM json_array_elements(CAST(CAST(:events AS TEXT) AS JSON)) AS line
WHERE EXISTS (SELECT 1 FROM invocations WHERE invocation_id = line ->> 'invocation_id')
ON CONFLICT DO NOTHING;

-- finish (sqlite): the ends of invocations; the first one counts, and what a host says over what was presumed
UPDATE invocations SET status = line ->> 'status', finished = line, presumed = FALSE
FROM (SELECT value ->> 'invocation_id' AS id, min(key) AS place, value AS line FROM json_each(:finished) GROUP BY 1)
WHERE invocation_id = id AND (status IS NULL OR presumed);

-- finish (postgresql): the ends of invocations; the first one counts, and what a host says over what was presumed
UPDATE invocations SET status = line ->> 'status', finished = CAST(line AS TEXT), presumed = FALSE
FROM (SELECT DISTINCT ON (line ->> 'invocation_id') line ->> 'invocation_id' AS id, line
  FROM json_array_elements(CAST(CAST(:finished AS TEXT) AS JSON)) WITH ORDINALITY AS f (line, place)
  ORDER BY line ->> 'invocation_id', place) AS first
WHERE invocation_id = id AND (status IS NULL OR presumed);

-- find_by_key: the invocation that was started with an idempotency key
SELECT invocation_id FROM invocations WHERE start_key = :start_key;

-- running: the invocations of a host that have no end
SELECT invocation_id FROM invocations WHERE host = :host AND status IS NULL;

-- presume_ended: the end of an invocation whose host is gone
UPDATE invocations SET status = 'failed', finished = :finished, presumed = TRUE
WHERE invocation_id = :invocation_id AND status IS NULL;

-- find: the record of an invocation
SELECT number, invocation_id, started, status, finished FROM invocations WHERE invocation_id = :invocation_id;

-- events: the events of an invocation
SELECT logged FROM invocation_events WHERE invocation_id = :invocation_id ORDER BY number;

-- oldest: the first ended invocations after a number, with the bytes of their records; which are too old, the caller decides
SELECT number, invocation_id, started_at, octet_length(started) + octet_length(finished) + (
  SELECT coalesce(sum(octet_length(logged)), 0) FROM invocation_events e WHERE e.invocation_id = i.invocation_id) AS bytes
FROM invocations i
WHERE status IS NOT NULL AND number > :after
ORDER BY number LIMIT :limit;

-- keep_from: the number of the oldest invocation that a limit of their count keeps
SELECT number FROM invocations WHERE status IS NOT NULL ORDER BY number DESC LIMIT 1 OFFSET :count;

-- delete_events: of some invocations
DELETE FROM invocation_events WHERE invocation_id = ANY(:invocation_ids);

-- delete: some invocations
DELETE FROM invocations WHERE number = ANY(:numbers);

-- used_bytes (sqlite): bytes of the file that are in use, without free pages
SELECT (page_count - freelist_count) * page_size AS bytes
FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size();

-- used_bytes (postgresql): bytes of all records
SELECT (SELECT coalesce(sum(octet_length(started) + coalesce(octet_length(finished), 0)), 0) FROM invocations)
  + (SELECT coalesce(sum(octet_length(logged)), 0) FROM invocation_events) AS bytes;

-- vacuum (sqlite): gives free pages back to the file system
PRAGMA incremental_vacuum(256);

-- vacuum (postgresql): the server does that by itself
SELECT 1;
