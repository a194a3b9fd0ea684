-- Ids are texts. An organisation's own rows have the empty text as their project_id.

CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE sessions (
  session_id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  title TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE chains (
  chain_id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  session_id TEXT,
  source_chain_id TEXT,
  compaction_id TEXT UNIQUE
) WITHOUT ROWID;
CREATE INDEX chains_of_session ON chains (session_id, chain_id);

CREATE TABLE blocks (
  chain_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  content TEXT NOT NULL,
  more TEXT NOT NULL,
  once TEXT UNIQUE, -- the idempotency key of an append
  PRIMARY KEY (chain_id, number)
) WITHOUT ROWID;

CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  session_id TEXT,
  chain_id TEXT,
  parent_run_id TEXT,
  invocation_id TEXT,
  export_id TEXT,
  task TEXT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT,
  output TEXT,
  result TEXT,
  started_at REAL NOT NULL,
  ended_at REAL
) WITHOUT ROWID;
CREATE INDEX runs_of_invocation ON runs (invocation_id, status);
CREATE INDEX runs_running ON runs (invocation_id) WHERE status = 'running';

-- The outbox: events stay here after their fan-out, until retention removes them.
CREATE TABLE events (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  event TEXT NOT NULL,
  created_at REAL NOT NULL,
  pending BOOLEAN NOT NULL -- not yet handed to deliveries
);
CREATE INDEX events_pending ON events (number) WHERE pending;
CREATE INDEX events_pending_of_tenant ON events (org_id, project_id, number) WHERE pending;
CREATE INDEX events_by_time ON events (created_at);

CREATE TABLE deliveries (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  delivery_id TEXT NOT NULL UNIQUE,
  binding_id TEXT NOT NULL,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  event_number INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  due_at REAL,
  status TEXT NOT NULL, -- pending, leased, acked, dead
  lease TEXT, -- of the process that has it
  why TEXT,
  settled_at REAL,
  UNIQUE (event_number, binding_id)
);
CREATE INDEX deliveries_due ON deliveries (binding_id, due_at, number) WHERE status = 'pending';
CREATE INDEX deliveries_leased ON deliveries (lease) WHERE status = 'leased';
CREATE INDEX deliveries_dead ON deliveries (number) WHERE status = 'dead';
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE leases (
  lease TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  expires_at REAL NOT NULL
) WITHOUT ROWID;

-- Entries of the journal are kept as they came, as JSON (started, finished); other columns are for queries.
CREATE TABLE invocations (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  invocation_id TEXT NOT NULL UNIQUE,
  host TEXT NOT NULL,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  export_id TEXT NOT NULL,
  binding_id TEXT NOT NULL,
  package_version TEXT NOT NULL,
  session_id TEXT,
  chain_id TEXT,
  run_id TEXT,
  trace_id TEXT,
  started_at REAL NOT NULL,
  started TEXT NOT NULL,
  status TEXT, -- NULL while it runs
  finished TEXT,
  presumed BOOLEAN NOT NULL DEFAULT FALSE, -- ended by another process, because its own was gone
  start_key TEXT UNIQUE
);
CREATE INDEX invocations_running ON invocations (host) WHERE status IS NULL;
-- Lists are ordered by time, newest first; each filter has an index in that order.
CREATE INDEX invocations_by_time ON invocations (started_at, number);
CREATE INDEX invocations_of_tenant ON invocations (org_id, project_id, started_at, number);
CREATE INDEX invocations_by_status ON invocations (status, started_at, number);
CREATE INDEX invocations_by_export ON invocations (export_id, started_at, number);
CREATE INDEX invocations_by_binding ON invocations (binding_id, started_at, number);
CREATE INDEX invocations_by_trace ON invocations (trace_id, started_at, number) WHERE trace_id IS NOT NULL;
CREATE INDEX invocations_of_session ON invocations (session_id, started_at, number) WHERE session_id IS NOT NULL;
CREATE INDEX invocations_of_chain ON invocations (chain_id, started_at, number) WHERE chain_id IS NOT NULL;
CREATE INDEX invocations_of_run ON invocations (run_id, started_at, number) WHERE run_id IS NOT NULL;

CREATE TABLE invocation_events (
  invocation_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  logged TEXT NOT NULL,
  PRIMARY KEY (invocation_id, number)
) WITHOUT ROWID;

CREATE TABLE signing_keys (
  name TEXT PRIMARY KEY,
  created_at REAL NOT NULL,
  sealed BLOB NOT NULL -- encrypted with the master key
) WITHOUT ROWID;
