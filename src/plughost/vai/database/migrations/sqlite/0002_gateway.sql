-- The tenants of a gateway, who may act for them, and what was done.

CREATE TABLE orgs (
  org_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at REAL NOT NULL,
  revision INTEGER NOT NULL
);

CREATE TABLE projects (
  project_id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at REAL NOT NULL,
  revision INTEGER NOT NULL
);
CREATE INDEX projects_of_org ON projects (org_id, created_at, project_id);

CREATE TABLE api_keys (
  key_id TEXT PRIMARY KEY,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL, -- empty: all projects of the organisation
  name TEXT NOT NULL,
  digest BLOB NOT NULL, -- SHA-256 of the secret
  scopes TEXT NOT NULL, -- JSON
  is_operator BOOLEAN NOT NULL, -- may make organisations
  created_at REAL NOT NULL,
  created_by TEXT NOT NULL,
  expires_at REAL,
  revoked_at REAL,
  last_used_at REAL
);
CREATE INDEX api_keys_of_org ON api_keys (org_id, created_at, key_id);

CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at REAL NOT NULL,
  org_id TEXT NOT NULL, -- empty: nobody known
  project_id TEXT NOT NULL,
  actor TEXT NOT NULL, -- kind:id of the principal; empty: nobody known
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  outcome TEXT NOT NULL, -- done, or the code of the problem
  address TEXT NOT NULL, -- of the client
  request_id TEXT NOT NULL
);
CREATE INDEX audit_of_org ON audit (org_id, number);
CREATE INDEX audit_by_action ON audit (org_id, action, number);
CREATE INDEX audit_by_actor ON audit (org_id, actor, number);
CREATE INDEX audit_by_target ON audit (org_id, target, number);
CREATE INDEX audit_by_outcome ON audit (org_id, outcome, number);
CREATE INDEX audit_by_time ON audit (at);

-- The answers to requests with an Idempotency-Key.
CREATE TABLE idempotency_keys (
  slot TEXT PRIMARY KEY, -- a digest of principal, route and key
  status INTEGER NOT NULL,
  sealed BLOB NOT NULL, -- the request's digest and the answer, encrypted with the master key
  created_at REAL NOT NULL
);
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (created_at);
