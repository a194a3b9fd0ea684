-- claim: the first start of a gateway on this database; no row when there was one before
INSERT INTO meta (name, value) VALUES ('gateway', :project_id) ON CONFLICT DO NOTHING RETURNING name;

-- first: the first project of the gateway
SELECT value FROM meta WHERE name = 'gateway';
