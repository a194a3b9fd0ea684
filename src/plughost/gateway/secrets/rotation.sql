-- batch: secrets whose data keys a master key encrypts, after one of them
SELECT org_id, project_id, name, version, data_key FROM secrets
WHERE master_key_id = :master_key_id AND (org_id, project_id, name) > (:after_org, :after_project, :after_name)
ORDER BY org_id, project_id, name LIMIT :limit;

-- reseal: the data key of a secret under another master key, unless the secret has another data key by now
UPDATE secrets SET master_key_id = :master_key_id, data_key = :data_key
WHERE org_id = :org_id AND project_id = :project_id AND name = :name AND data_key = :former
RETURNING name;
