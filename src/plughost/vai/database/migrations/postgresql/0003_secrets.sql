-- The secrets of tenants, each encrypted with a data key of its own.

CREATE TABLE secrets (
  org_id TEXT NOT NULL,
  project_id TEXT NOT NULL, -- empty: of the organisation itself
  name TEXT NOT NULL,
  version INTEGER NOT NULL, -- counts the values; only the newest is kept
  packages TEXT, -- JSON: the packages that may be given the value; NULL: any
  created_at DOUBLE PRECISION NOT NULL,
  updated_at DOUBLE PRECISION NOT NULL,
  master_key_id TEXT NOT NULL, -- of the master key that encrypts the data key
  data_key BYTEA NOT NULL, -- encrypted with the master key
  sealed BYTEA NOT NULL, -- the value, encrypted with the data key
  PRIMARY KEY (org_id, project_id, name)
);
CREATE INDEX secrets_by_time ON secrets (org_id, project_id, created_at, name);
CREATE INDEX secrets_by_master_key ON secrets (master_key_id, org_id, project_id, name);
