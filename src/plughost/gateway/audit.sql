-- insert: what was done, or refused
INSERT INTO audit (at, org_id, project_id, actor, action, target, outcome, address, request_id)
VALUES (:at, :org_id, :project_id, :actor, :action, :target, :outcome, :address, :request_id);
