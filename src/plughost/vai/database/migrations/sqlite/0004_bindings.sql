-- Bindings: which export of which package version serves whom.

CREATE TABLE bindings (
  binding_id TEXT PRIMARY KEY,
  number INTEGER NOT NULL UNIQUE, -- the change that made it; lists are in this order
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL, -- empty: all projects of the organisation
  package_id TEXT NOT NULL,
  package_version TEXT NOT NULL,
  export_id TEXT NOT NULL,
  config TEXT NOT NULL, -- JSON
  secrets TEXT NOT NULL, -- JSON: slot to the name of a secret
  policy TEXT NOT NULL, -- JSON
  status TEXT NOT NULL, -- active, disabled
  traffic_percent INTEGER NOT NULL, -- 0 while disabled; active versions sum to 100
  activated INTEGER, -- the change that made it active; NULL while disabled
  revision INTEGER NOT NULL,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL
);
CREATE UNIQUE INDEX bindings_by_version ON bindings (org_id, project_id, package_id, export_id, package_version);
CREATE INDEX bindings_of_org ON bindings (org_id, number);
CREATE INDEX bindings_of_project ON bindings (org_id, project_id, number);
CREATE INDEX bindings_by_package ON bindings (org_id, package_id, number);
CREATE INDEX bindings_by_export ON bindings (org_id, export_id, number);
CREATE INDEX bindings_by_status ON bindings (org_id, status, number);

-- Every change of a binding. Numbers of changes are in the order of commits, so that readers miss none.
CREATE TABLE binding_revisions (
  change INTEGER PRIMARY KEY,
  binding_id TEXT NOT NULL,
  revision INTEGER NOT NULL,
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  at REAL NOT NULL,
  actor TEXT NOT NULL, -- kind:id of the principal
  action TEXT NOT NULL, -- create, patch, rebalance, rollback, auto_rollback, delete
  note TEXT NOT NULL, -- why, where the gateway itself made the change
  document TEXT NOT NULL -- JSON: the binding after the change
);
CREATE UNIQUE INDEX binding_revisions_of_binding ON binding_revisions (binding_id, revision);

-- How invocations of versions in a rollout ended, summed up over a few seconds each.
CREATE TABLE binding_outcomes (
  binding_id TEXT NOT NULL,
  revision INTEGER NOT NULL,
  slot INTEGER NOT NULL, -- the time, in units of some seconds
  succeeded INTEGER NOT NULL,
  failed INTEGER NOT NULL, -- failures that the plugin caused
  PRIMARY KEY (binding_id, revision, slot)
);
CREATE INDEX binding_outcomes_by_time ON binding_outcomes (slot);
