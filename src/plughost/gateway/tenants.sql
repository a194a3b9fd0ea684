-- insert_org: a new organisation
INSERT INTO orgs (org_id, name, created_at, revision) VALUES (:org_id, :name, :created_at, 1);

-- find_org: the organisation of that id
SELECT org_id, name, created_at, revision FROM orgs WHERE org_id = :org_id;

-- lock_org: the organisation of that id, until the end of the transaction
SELECT org_id, name, created_at, revision FROM orgs WHERE org_id = :org_id FOR UPDATE;

-- rename_org: a new name
UPDATE orgs SET name = :name, revision = revision + 1 WHERE org_id = :org_id
RETURNING org_id, name, created_at, revision;

-- insert_project: a new project
INSERT INTO projects (project_id, org_id, name, created_at, revision)
VALUES (:project_id, :org_id, :name, :created_at, 1);

-- find_project: the project of that id
SELECT project_id, org_id, name, created_at, revision FROM projects WHERE project_id = :project_id;

-- lock_project: the project of that id, until the end of the transaction
SELECT project_id, org_id, name, created_at, revision FROM projects WHERE project_id = :project_id FOR UPDATE;

-- rename_project: a new name
UPDATE projects SET name = :name, revision = revision + 1 WHERE project_id = :project_id
RETURNING project_id, org_id, name, created_at, revision;

-- any_org: whether there is an organisation
SELECT org_id FROM orgs LIMIT 1;
