-- From format 3 to format 4: every session with an offer has a row of its lease, which a claim updates.
INSERT INTO lease (session, epoch, until, pid, host, since)
    SELECT session, 0, '-infinity', 0, '', 0 FROM offer ON CONFLICT DO NOTHING;
UPDATE convoke_store SET format = 4;
