-- SPDX-License-Identifier: LGPL-2.1-or-later
-- Hosts, the filesystems they share, and which units of which jobs are whose.
--
-- Hosts call functions, and see views; no more. A claim lasts as long as the lease of its host, by
-- this server's clock, and has a token that no other claim ever had: what is said of a unit with an
-- older one changes nothing.
--
-- Notices are hints, on the channel "reclaimd":
--   open FILESYSTEM               there are units that no host has
--   wanted FILESYSTEM HOST UNITS  so many more would that host take
--   works FILESYSTEM HOST 1       that host deletes there now; 0: not any more
--   job OWNER                     something has become of its jobs
--   revoke OWNER JOB              what is claimed of it is to be given back

CREATE SCHEMA reclaimd;

DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'reclaimd_host') THEN
		CREATE ROLE reclaimd_host NOLOGIN;
	END IF;
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'reclaimd_admin') THEN
		CREATE ROLE reclaimd_admin NOLOGIN;
	END IF;
END
$$;

CREATE TABLE reclaimd.version (
	number int PRIMARY KEY,
	since timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE DOMAIN reclaimd.label AS text COLLATE "C"
	CHECK (VALUE ~ '^[a-z0-9][a-z0-9.-]{0,62}$');

CREATE TABLE reclaimd.hosts (
	name reclaimd.label PRIMARY KEY,
	life uuid NOT NULL UNIQUE,      -- known to the host alone: who has it, is the host
	role name NOT NULL,             -- that it joins as
	boot text NOT NULL CHECK (length(boot) BETWEEN 1 AND 64),
	version text NOT NULL CHECK (length(version) <= 64),
	backend int NOT NULL,           -- of its session
	joined timestamptz NOT NULL,
	lease interval NOT NULL CHECK (lease BETWEEN '100ms' AND '10min'),
	lease_until timestamptz NOT NULL
);

CREATE TABLE reclaimd.filesystems (
	name reclaimd.label PRIMARY KEY,
	identity text NOT NULL CHECK (length(identity) BETWEEN 1 AND 255),
	uid_space text NOT NULL CHECK (length(uid_space) BETWEEN 1 AND 255)
);

CREATE TABLE reclaimd.mounts (
	host reclaimd.label REFERENCES reclaimd.hosts ON DELETE CASCADE,
	filesystem reclaimd.label REFERENCES reclaimd.filesystems,
	path text NOT NULL CHECK (length(path) < 4096),
	wanted int NOT NULL DEFAULT 0 CHECK (wanted >= 0), -- units that the host would take now
	works boolean NOT NULL DEFAULT false,              -- it has claims there, or runs a job of its own
	max_rate bigint CHECK (max_rate > 0), -- bytes a second of all hosts together, as it has it
	PRIMARY KEY (host, filesystem)
);

CREATE TABLE reclaimd.jobs (
	owner reclaimd.label REFERENCES reclaimd.hosts ON DELETE CASCADE,
	job bigint CHECK (job > 0),
	filesystem reclaimd.label NOT NULL REFERENCES reclaimd.filesystems,
	uid bigint NOT NULL CHECK (uid BETWEEN 0 AND 4294967294),
	recalled boolean NOT NULL DEFAULT false,
	units bigint NOT NULL DEFAULT 0,   -- of it in the table below: counting them takes long
	entries bigint NOT NULL DEFAULT 0, -- by claims that have ended
	bytes bigint NOT NULL DEFAULT 0,
	errors bigint NOT NULL DEFAULT 0,
	others_units bigint NOT NULL DEFAULT 0, -- that hosts other than the owner have ended
	others_entries bigint NOT NULL DEFAULT 0,
	others_bytes bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (owner, job)
);

CREATE SEQUENCE reclaimd.tokens;

-- An identity is INODE:BIRTH:TYPE, in decimal, TYPE one letter as find(1) has it.
CREATE TABLE reclaimd.units (
	unit bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	owner reclaimd.label NOT NULL,
	job bigint NOT NULL,
	filesystem reclaimd.label NOT NULL,
	directory bytea NOT NULL CHECK (octet_length(directory) < 4096), -- beneath the job's
	parent text NOT NULL CHECK (length(parent) <= 64),               -- that directory's identity
	slice int NOT NULL CHECK (slice >= 0),
	slices int NOT NULL CHECK (slices BETWEEN 0 AND 65536), -- 0: these names
	names bytea NOT NULL CHECK (octet_length(names) <= 32768), -- each with a NUL behind it
	identities text NOT NULL CHECK (length(identities) <= 32768), -- of the names, a blank between
	published timestamptz NOT NULL DEFAULT clock_timestamp(),
	refused uuid[] NOT NULL DEFAULT '{}', -- lives that have given it back
	host reclaimd.label REFERENCES reclaimd.hosts, -- that has claimed it
	life uuid,
	token bigint UNIQUE,
	claimed timestamptz,
	entries bigint NOT NULL DEFAULT 0, -- so far, by this claim
	bytes bigint NOT NULL DEFAULT 0,
	FOREIGN KEY (owner, job) REFERENCES reclaimd.jobs ON DELETE CASCADE,
	CHECK ((host IS NULL) = (life IS NULL) AND (host IS NULL) = (token IS NULL))
);
CREATE INDEX units_open ON reclaimd.units (filesystem, unit) WHERE host IS NULL;
CREATE INDEX units_claimed ON reclaimd.units (host) WHERE host IS NOT NULL;
CREATE INDEX units_job ON reclaimd.units (owner, job);
CREATE INDEX units_job_claimed ON reclaimd.units (owner, job) WHERE host IS NOT NULL;

CREATE TABLE reclaimd.problems (
	problem bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	owner reclaimd.label NOT NULL,
	job bigint NOT NULL,
	path bytea NOT NULL CHECK (octet_length(path) <= 4096),
	what text NOT NULL CHECK (length(what) <= 1024),
	error int NOT NULL CHECK (error BETWEEN 0 AND 4095),
	FOREIGN KEY (owner, job) REFERENCES reclaimd.jobs ON DELETE CASCADE
);
CREATE INDEX problems_job ON reclaimd.problems (owner, job);

-- ---- within the functions that hosts call --------------------------------------------------------

CREATE FUNCTION reclaimd.host_of(a_life uuid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = reclaimd, pg_temp AS $$
DECLARE
	found_name text;
BEGIN
	SELECT h.name INTO found_name FROM hosts h WHERE h.life = a_life;
	IF found_name IS NULL THEN
		RAISE EXCEPTION 'this host has to join again' USING ERRCODE = 'RC003';
	END IF;
	RETURN found_name;
END
$$;

-- Whether any other host would notice if the filesystem were another one.
CREATE FUNCTION reclaimd.in_use(a_filesystem text, a_host text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = reclaimd, pg_temp AS $$
	SELECT EXISTS (SELECT FROM mounts m JOIN hosts h ON h.name = m.host
			WHERE m.filesystem = a_filesystem AND h.name <> a_host
				AND h.lease_until > clock_timestamp())
		OR EXISTS (SELECT FROM jobs j WHERE j.filesystem = a_filesystem AND j.owner <> a_host)
$$;

CREATE FUNCTION reclaimd.want(a_host text, a_filesystem text, a_units int) RETURNS void
LANGUAGE plpgsql SET search_path = reclaimd, pg_temp AS $$
BEGIN
	UPDATE mounts m SET wanted = a_units
		WHERE m.host = a_host AND m.filesystem = a_filesystem AND m.wanted <> a_units;
	IF FOUND THEN
		PERFORM pg_notify('reclaimd', format('wanted %s %s %s', a_filesystem, a_host, a_units));
	END IF;
END
$$;

CREATE FUNCTION reclaimd.work(a_host text, a_filesystem text, a_works boolean) RETURNS void
LANGUAGE plpgsql SET search_path = reclaimd, pg_temp AS $$
BEGIN
	UPDATE mounts m SET works = a_works
		WHERE m.host = a_host AND m.filesystem = a_filesystem AND m.works <> a_works;
	IF FOUND THEN
		PERFORM pg_notify('reclaimd', format('works %s %s %s', a_filesystem, a_host, a_works::int));
	END IF;
END
$$;

-- Until it says more, the host wants nothing, and does not work.
CREATE FUNCTION reclaimd.rest(a_host text) RETURNS void
LANGUAGE sql SET search_path = reclaimd, pg_temp AS $$
	SELECT want(a_host, m.filesystem, 0), work(a_host, m.filesystem, false)
		FROM mounts m WHERE m.host = a_host AND (m.wanted > 0 OR m.works)
$$;

-- All that a host has claimed is open again. Of a job that was recalled, nothing is left of that.
CREATE FUNCTION reclaimd.release(a_host text) RETURNS void
LANGUAGE plpgsql SET search_path = reclaimd, pg_temp AS $$
DECLARE
	u record;
BEGIN
	FOR u IN SELECT c.unit, c.owner, c.job, c.filesystem, j.recalled
		FROM units c JOIN jobs j ON j.owner = c.owner AND j.job = c.job
		WHERE c.host = a_host ORDER BY c.owner, c.job, c.unit FOR UPDATE OF c
	LOOP
		IF u.recalled THEN
			DELETE FROM units c WHERE c.unit = u.unit;
			UPDATE jobs j SET units = j.units - 1 WHERE j.owner = u.owner AND j.job = u.job;
		ELSE
			UPDATE units c SET host = NULL, life = NULL, token = NULL, claimed = NULL, entries = 0, bytes = 0
				WHERE c.unit = u.unit;
			PERFORM pg_notify('reclaimd', 'open ' || u.filesystem);
		END IF;
		PERFORM pg_notify('reclaimd', 'job ' || u.owner);
	END LOOP;
	PERFORM rest(a_host);
END
$$;

-- Of hosts whose lease is over.
CREATE FUNCTION reclaimd.release_ended() RETURNS void
LANGUAGE plpgsql SET search_path = reclaimd, pg_temp AS $$
DECLARE
	ended text;
BEGIN
	FOR ended IN SELECT h.name FROM hosts h
		WHERE h.lease_until < clock_timestamp()
			AND (EXISTS (SELECT FROM units u WHERE u.host = h.name)
				OR EXISTS (SELECT FROM mounts m WHERE m.host = h.name AND (m.wanted > 0 OR m.works)))
		FOR UPDATE SKIP LOCKED
	LOOP
		PERFORM release(ended);
	END LOOP;
END
$$;

-- What a host hears of its claims and its jobs. One of: a claim that is lost (token; 0: its lease was
-- over, so that nothing is wanted for it any more); how a job is
-- (job, no path); what was met with in one (job, path).
CREATE TYPE reclaimd.news_row AS (
	token bigint,
	job bigint,
	open bigint,
	claimed bigint,
	entries bigint,
	bytes bigint,
	errors bigint,
	path bytea,
	what text,
	error int,
	others_claimed bigint,
	others_units bigint,
	others_entries bigint,
	others_bytes bigint
);

CREATE FUNCTION reclaimd.news_of(a_host text) RETURNS SETOF reclaimd.news_row
LANGUAGE plpgsql SET search_path = reclaimd, pg_temp AS $$
BEGIN
	RETURN QUERY WITH taken AS (
			DELETE FROM problems p WHERE p.problem IN (
				SELECT q.problem FROM problems q WHERE q.owner = a_host ORDER BY q.problem LIMIT 64)
			RETURNING p.problem, p.job, p.path, p.what, p.error)
		SELECT NULL::bigint, t.job, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
			NULL::bigint, t.path, t.what, t.error, NULL::bigint, NULL::bigint, NULL::bigint,
			NULL::bigint
		FROM taken t ORDER BY t.problem;
	RETURN QUERY SELECT NULL::bigint, j.job, greatest(j.units - count(u.unit), 0), count(u.unit),
			(j.entries + coalesce(sum(u.entries), 0))::bigint,
			(j.bytes + coalesce(sum(u.bytes), 0))::bigint, j.errors,
			NULL::bytea, NULL::text, NULL::int,
			count(u.unit) FILTER (WHERE u.host <> j.owner), j.others_units,
			(j.others_entries + coalesce(sum(u.entries) FILTER (WHERE u.host <> j.owner), 0))::bigint,
			(j.others_bytes + coalesce(sum(u.bytes) FILTER (WHERE u.host <> j.owner), 0))::bigint
		FROM jobs j LEFT JOIN units u ON u.owner = j.owner AND u.job = j.job AND u.host IS NOT NULL
		WHERE j.owner = a_host GROUP BY j.owner, j.job ORDER BY j.job;
END
$$;

-- ---- what hosts call -----------------------------------------------------------------------------

CREATE FUNCTION reclaimd.schema_version() RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
	SELECT max(v.number) FROM version v
$$;

-- What a host hears when it joins. One of: its life, and how many milliseconds its lease has; how
-- many units (number) another host (host) wants of a filesystem (name); that it works there.
CREATE TYPE reclaimd.join_row AS (what text, name text, host text, number bigint);

-- a_life: that which the host had before; it keeps that, and its claims, if it is still so.
CREATE FUNCTION reclaimd.join_fleet(
	a_host text, a_life uuid, a_boot text, a_uid_space text, a_version text, a_lease_msec bigint,
	a_filesystems text[], a_identities text[], a_paths text[]
) RETURNS SETOF reclaimd.join_row
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	h hosts;
	fs filesystems;
	other text;
	a_lease interval := a_lease_msec * interval '1ms';
BEGIN
	-- What is compared is in more than one row.
	PERFORM pg_advisory_xact_lock(7362146);
	SELECT * INTO h FROM hosts WHERE name = a_host FOR UPDATE;
	IF h.role <> session_user THEN
		RAISE EXCEPTION 'host "%" joins with the role "%" of the database, and this is role "%"',
			a_host, h.role, session_user USING ERRCODE = 'RC001';
	END IF;
	-- The daemon of this boot that was here before has ended if its session has.
	IF h.life IS DISTINCT FROM a_life AND h.lease_until > clock_timestamp()
		AND (h.boot <> a_boot OR EXISTS (
			SELECT FROM pg_stat_activity a WHERE a.pid = h.backend AND a.pid <> pg_backend_pid()))
	THEN
		RAISE EXCEPTION 'another host is called "%", and is there: give each host a name of its own',
			a_host USING ERRCODE = 'RC002';
	END IF;
	IF h.name IS NULL THEN
		INSERT INTO hosts VALUES (a_host, gen_random_uuid(), session_user, a_boot, a_version,
			pg_backend_pid(), clock_timestamp(), a_lease, clock_timestamp() + a_lease)
			RETURNING * INTO h;
	ELSE
		IF h.life IS DISTINCT FROM a_life THEN
			PERFORM release(a_host);
			h.life := gen_random_uuid();
			h.joined := clock_timestamp();
		END IF;
		UPDATE hosts SET life = h.life, joined = h.joined, boot = a_boot, version = a_version,
			backend = pg_backend_pid(), lease = a_lease, lease_until = clock_timestamp() + a_lease
			WHERE name = a_host;
	END IF;
	FOR i IN 1 .. cardinality(a_filesystems) LOOP
		SELECT f.name INTO other FROM filesystems f
			WHERE f.identity = a_identities[i] AND f.name <> a_filesystems[i] AND in_use(f.name, a_host)
			LIMIT 1;
		IF FOUND THEN
			RAISE EXCEPTION 'the filesystem at % is called "%" by other hosts, and "%" by this one',
				a_paths[i], other, a_filesystems[i] USING ERRCODE = 'RC001';
		END IF;
		SELECT * INTO fs FROM filesystems f WHERE f.name = a_filesystems[i] FOR UPDATE;
		IF FOUND AND (fs.identity, fs.uid_space) IS DISTINCT FROM (a_identities[i], a_uid_space)
			AND in_use(fs.name, a_host)
		THEN
			IF fs.identity <> a_identities[i] THEN
				RAISE EXCEPTION 'the filesystem "%" of other hosts is %, and that at % is %',
					fs.name, fs.identity, a_paths[i], a_identities[i] USING ERRCODE = 'RC001';
			END IF;
			RAISE EXCEPTION 'users of "%" have the numbers of "%" on other hosts, and of "%" here',
				fs.name, fs.uid_space, a_uid_space USING ERRCODE = 'RC001';
		END IF;
		INSERT INTO filesystems VALUES (a_filesystems[i], a_identities[i], a_uid_space)
			ON CONFLICT (name) DO UPDATE
			SET identity = excluded.identity, uid_space = excluded.uid_space;
		INSERT INTO mounts (host, filesystem, path) VALUES (a_host, a_filesystems[i], a_paths[i])
			ON CONFLICT (host, filesystem) DO UPDATE SET path = excluded.path, max_rate = NULL;
	END LOOP;
	PERFORM rest(a_host);
	DELETE FROM mounts m WHERE m.host = a_host AND m.filesystem <> ALL (a_filesystems);
	RETURN NEXT ('life', h.life::text, NULL, a_lease_msec)::join_row;
	RETURN QUERY SELECT 'wanted'::text, m.filesystem::text, m.host::text, m.wanted::bigint
		FROM mounts m JOIN hosts o ON o.name = m.host
		WHERE m.host <> a_host AND m.filesystem = ANY (a_filesystems) AND m.wanted > 0
			AND o.lease_until > clock_timestamp();
	RETURN QUERY SELECT 'works'::text, m.filesystem::text, m.host::text, NULL::bigint
		FROM mounts m JOIN hosts o ON o.name = m.host
		WHERE m.host <> a_host AND m.filesystem = ANY (a_filesystems) AND m.works
			AND o.lease_until > clock_timestamp();
END
$$;

-- The host is there, and has done so much of what it has claimed.
CREATE FUNCTION reclaimd.renew(a_life uuid, a_tokens bigint[], a_entries bigint[], a_bytes bigint[])
RETURNS SETOF reclaimd.news_row
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	me text := host_of(a_life);
	was_over boolean;
BEGIN
	SELECT h.lease_until < clock_timestamp() INTO was_over FROM hosts h WHERE h.life = a_life FOR UPDATE;
	UPDATE hosts SET lease_until = clock_timestamp() + lease WHERE life = a_life;
	-- It is told, and says again what it wants.
	IF was_over THEN
		PERFORM rest(me);
	END IF;
	UPDATE units u SET entries = s.entries, bytes = s.bytes
		FROM unnest(a_tokens, a_entries, a_bytes) AS s(token, entries, bytes)
		WHERE u.token = s.token AND u.life = a_life
			AND (u.entries, u.bytes) IS DISTINCT FROM (s.entries, s.bytes);
	PERFORM release_ended();
	RETURN QUERY SELECT t.token, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
			NULL::bigint, NULL::bytea, NULL::text, NULL::int, NULL::bigint, NULL::bigint,
			NULL::bigint, NULL::bigint
		FROM unnest(CASE WHEN was_over THEN a_tokens || 0::bigint ELSE a_tokens END) AS t(token)
		WHERE NOT EXISTS (SELECT FROM units u WHERE u.token = t.token AND u.life = a_life);
	RETURN QUERY SELECT * FROM news_of(me);
END
$$;

CREATE FUNCTION reclaimd.news(a_life uuid) RETURNS SETOF reclaimd.news_row
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
BEGIN
	RETURN QUERY SELECT * FROM news_of(host_of(a_life));
END
$$;

-- Units of a job of this host; or, with a token, parts of one that it has claimed. False: they are
-- not wanted any more, and not published.
CREATE FUNCTION reclaimd.publish(
	a_life uuid, a_owner text, a_token bigint, a_job bigint, a_uid bigint, a_filesystem text,
	a_directories bytea[], a_parents text[], a_slice int[], a_slices int[], a_names bytea[],
	a_identities text[]
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	me text := host_of(a_life);
	n int := cardinality(a_directories);
BEGIN
	IF a_owner = me THEN
		UPDATE jobs j SET units = j.units + n, recalled = false
			WHERE j.owner = me AND j.job = a_job AND j.filesystem = a_filesystem AND j.uid = a_uid;
		IF NOT FOUND THEN
			INSERT INTO jobs (owner, job, filesystem, uid, units) VALUES (me, a_job, a_filesystem, a_uid, n)
				ON CONFLICT DO NOTHING;
		END IF;
	ELSE
		UPDATE jobs o SET units = o.units + n FROM units u
			WHERE u.token = a_token AND u.life = a_life AND u.owner = a_owner AND u.job = a_job
				AND u.filesystem = a_filesystem AND o.owner = u.owner AND o.job = u.job
				AND NOT o.recalled;
	END IF;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	INSERT INTO units (owner, job, filesystem, directory, parent, slice, slices, names, identities)
		SELECT a_owner, a_job, a_filesystem, s.directory, s.parent, s.slice, s.slices, s.names, s.identities
		FROM unnest(a_directories, a_parents, a_slice, a_slices, a_names, a_identities)
			AS s(directory, parent, slice, slices, names, identities);
	PERFORM pg_notify('reclaimd', 'open ' || a_filesystem);
	RETURN true;
END
$$;

CREATE TYPE reclaimd.claim_row AS (
	unit bigint,
	token bigint,
	owner text,
	job bigint,
	uid bigint,
	filesystem text,
	directory bytea,
	parent text,
	slice int,
	slices int,
	names bytea,
	identities text
);

-- Up to so many units of each filesystem; what is missing to that is wanted from now on. Whether the
-- host works there whatever it gets, and how fast all hosts may be together, as it has it (0: unlimited).
CREATE FUNCTION reclaimd.claim(a_life uuid, a_filesystems text[], a_units int[], a_works int[], a_rates bigint[])
RETURNS SETOF reclaimd.claim_row
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	me text := host_of(a_life);
	got int;
BEGIN
	-- What is claimed by a host whose lease is over would be given to the next that asks.
	IF NOT EXISTS (SELECT FROM hosts h WHERE h.life = a_life AND h.lease_until > clock_timestamp()) THEN
		RETURN;
	END IF;
	FOR i IN 1 .. cardinality(a_filesystems) LOOP
		RETURN QUERY WITH free AS (
				SELECT u.unit FROM units u
					WHERE u.filesystem = a_filesystems[i] AND u.host IS NULL
						AND a_life <> ALL (u.refused)
					ORDER BY u.unit LIMIT a_units[i] FOR UPDATE SKIP LOCKED),
			taken AS (
				UPDATE units u SET host = me, life = a_life, token = nextval('tokens'),
						claimed = clock_timestamp(), entries = 0, bytes = 0
					FROM free WHERE u.unit = free.unit RETURNING u.*)
			SELECT t.unit, t.token, t.owner::text, t.job, j.uid, t.filesystem::text, t.directory,
					t.parent, t.slice, t.slices, t.names, t.identities
				FROM taken t JOIN jobs j ON j.owner = t.owner AND j.job = t.job
				ORDER BY t.unit;
		GET DIAGNOSTICS got = ROW_COUNT;
		PERFORM want(me, a_filesystems[i], greatest(a_units[i] - got, 0));
		PERFORM work(me, a_filesystems[i], a_works[i] <> 0 OR got > 0);
		UPDATE mounts m SET max_rate = nullif(a_rates[i], 0)
			WHERE m.host = me AND m.filesystem = a_filesystems[i]
				AND m.max_rate IS DISTINCT FROM nullif(a_rates[i], 0);
	END LOOP;
END
$$;

-- Claims have ended: all of the unit is done, or it is given back. How many of them were still so.
CREATE FUNCTION reclaimd.finish(
	a_life uuid, a_tokens bigint[], a_entries bigint[], a_bytes bigint[], a_errors bigint[], a_ended boolean[],
	a_problem_tokens bigint[], a_problem_paths bytea[], a_problem_whats text[], a_problem_errors int[]
) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	me text := host_of(a_life);
	s record;
	is_recalled boolean;
	n int := 0;
BEGIN
	FOR s IN SELECT x.*, u.unit, u.owner, u.job, u.filesystem
		FROM unnest(a_tokens, a_entries, a_bytes, a_errors, a_ended)
			AS x(token, entries, bytes, errors, ended)
		JOIN units u ON u.token = x.token AND u.life = a_life
		ORDER BY u.owner, u.job, u.unit FOR UPDATE OF u
	LOOP
		UPDATE jobs j SET entries = j.entries + s.entries, bytes = j.bytes + s.bytes,
				errors = j.errors + s.errors,
				others_units = j.others_units + (s.ended AND s.owner <> me)::int,
				others_entries = j.others_entries + s.entries * (s.owner <> me)::int,
				others_bytes = j.others_bytes + s.bytes * (s.owner <> me)::int,
				units = j.units - (s.ended OR j.recalled)::int
			WHERE j.owner = s.owner AND j.job = s.job RETURNING j.recalled INTO is_recalled;
		-- A person reads no more.
		INSERT INTO problems (owner, job, path, what, error)
			SELECT s.owner, s.job, p.path, p.what, p.error
			FROM unnest(a_problem_tokens, a_problem_paths, a_problem_whats, a_problem_errors)
				AS p(token, path, what, error)
			WHERE p.token = s.token AND (
				SELECT count(*) FROM problems q WHERE q.owner = s.owner AND q.job = s.job) < 1000;
		IF s.ended OR is_recalled THEN
			DELETE FROM units u WHERE u.unit = s.unit;
		ELSE
			UPDATE units u SET host = NULL, life = NULL, token = NULL, claimed = NULL, entries = 0, bytes = 0,
					refused = u.refused || a_life
				WHERE u.unit = s.unit;
			PERFORM pg_notify('reclaimd', 'open ' || s.filesystem);
		END IF;
		PERFORM pg_notify('reclaimd', 'job ' || s.owner);
		n := n + 1;
	END LOOP;
	RETURN n;
END
$$;

-- What no host has claimed of a job of this host is no unit any more, and what one has is to be given
-- back. Until more is published.
CREATE FUNCTION reclaimd.recall(a_life uuid, a_job bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	me text := host_of(a_life);
	n int;
BEGIN
	UPDATE jobs j SET recalled = true WHERE j.owner = me AND j.job = a_job;
	DELETE FROM units u WHERE u.owner = me AND u.job = a_job AND u.host IS NULL;
	GET DIAGNOSTICS n = ROW_COUNT;
	UPDATE jobs j SET units = j.units - n WHERE j.owner = me AND j.job = a_job;
	PERFORM pg_notify('reclaimd', format('revoke %s %s', me, a_job));
	PERFORM pg_notify('reclaimd', 'job ' || me);
END
$$;

-- A job of this host has ended.
CREATE FUNCTION reclaimd.forget(a_life uuid, a_job bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	me text := host_of(a_life);
BEGIN
	DELETE FROM jobs j WHERE j.owner = me AND j.job = a_job;
	IF FOUND THEN
		PERFORM pg_notify('reclaimd', format('revoke %s %s', me, a_job));
	END IF;
END
$$;

-- The host ends: what it has claimed is open at once.
CREATE FUNCTION reclaimd.leave(a_life uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	me text := host_of(a_life);
BEGIN
	PERFORM FROM hosts h WHERE h.name = me FOR UPDATE;
	PERFORM release(me);
	UPDATE hosts h SET lease_until = clock_timestamp() WHERE h.name = me;
END
$$;

-- ---- what administrators call --------------------------------------------------------------------

-- Removes a dead host, with its jobs and units. If it comes back, it joins as a new host.
CREATE FUNCTION reclaimd.remove_host(a_host text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reclaimd, pg_temp AS $$
DECLARE
	h hosts;
BEGIN
	PERFORM pg_advisory_xact_lock(7362146);
	SELECT * INTO h FROM hosts WHERE name = a_host FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no host "%"', a_host USING ERRCODE = 'RC001';
	END IF;
	IF h.lease_until > clock_timestamp() THEN
		RAISE EXCEPTION 'host "%" is in the fleet: stop its reclaimd first', a_host
			USING ERRCODE = 'RC001';
	END IF;
	PERFORM release(a_host);
	PERFORM pg_notify('reclaimd', format('revoke %s %s', a_host, j.job)) FROM jobs j WHERE j.owner = a_host;
	DELETE FROM hosts o WHERE o.name = a_host;
END
$$;

-- ---- what all may see ----------------------------------------------------------------------------

CREATE VIEW reclaimd.show_hosts AS
	SELECT h.name, h.lease_until > clock_timestamp() AS present,
		extract(epoch FROM h.lease_until - clock_timestamp())::float8 AS lease_seconds,
		h.version, h.boot, h.joined,
		(SELECT count(*) FROM reclaimd.units u WHERE u.host = h.name) AS claimed,
		(SELECT count(*) FROM reclaimd.jobs j WHERE j.owner = h.name) AS jobs
	FROM reclaimd.hosts h;

CREATE VIEW reclaimd.show_filesystems AS
	SELECT f.name, f.identity, f.uid_space, m.host, m.path, m.wanted, m.works, m.max_rate,
		m.max_rate / least(64, 1 + (SELECT count(*) FROM reclaimd.mounts o
			WHERE o.filesystem = m.filesystem AND o.host <> m.host AND o.works)) AS rate
	FROM reclaimd.filesystems f LEFT JOIN reclaimd.mounts m ON m.filesystem = f.name;

CREATE VIEW reclaimd.show_jobs AS
	SELECT j.owner, j.job, j.filesystem, j.uid, j.recalled, greatest(j.units - count(u.unit), 0) AS open,
		count(u.unit) AS claimed,
		(j.entries + coalesce(sum(u.entries), 0))::bigint AS entries,
		(j.bytes + coalesce(sum(u.bytes), 0))::bigint AS bytes, j.errors
	FROM reclaimd.jobs j
		LEFT JOIN reclaimd.units u ON u.owner = j.owner AND u.job = j.job AND u.host IS NOT NULL
	GROUP BY j.owner, j.job;

CREATE VIEW reclaimd.show_units AS
	SELECT u.unit, u.owner, u.job, j.uid, u.filesystem, encode(u.directory, 'escape') AS directory,
		CASE WHEN u.slices > 0 THEN format('slice %s of %s', u.slice + 1, u.slices)
			ELSE replace(regexp_replace(encode(u.names, 'escape'), '\\000$', ''), '\000', ' ') END AS what,
		u.host, u.claimed, u.published, u.entries, u.bytes,
		CASE WHEN u.identities = '' THEN 0
			ELSE cardinality(string_to_array(u.identities, ' ')) END AS names
	FROM reclaimd.units u JOIN reclaimd.jobs j ON j.owner = u.owner AND j.job = u.job;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA reclaimd FROM PUBLIC;
GRANT USAGE ON SCHEMA reclaimd TO reclaimd_host, reclaimd_admin;
GRANT EXECUTE ON FUNCTION reclaimd.schema_version() TO reclaimd_host, reclaimd_admin;
GRANT EXECUTE ON FUNCTION
	reclaimd.join_fleet(text, uuid, text, text, text, bigint, text[], text[], text[]),
	reclaimd.renew(uuid, bigint[], bigint[], bigint[]),
	reclaimd.news(uuid),
	reclaimd.publish(uuid, text, bigint, bigint, bigint, text, bytea[], text[], int[], int[], bytea[], text[]),
	reclaimd.claim(uuid, text[], int[], int[], bigint[]),
	reclaimd.finish(uuid, bigint[], bigint[], bigint[], bigint[], boolean[], bigint[], bytea[], text[], int[]),
	reclaimd.recall(uuid, bigint),
	reclaimd.forget(uuid, bigint),
	reclaimd.leave(uuid)
	TO reclaimd_host;
GRANT EXECUTE ON FUNCTION reclaimd.remove_host(text) TO reclaimd_admin;
GRANT SELECT ON reclaimd.show_hosts, reclaimd.show_filesystems, reclaimd.show_jobs, reclaimd.show_units
	TO reclaimd_host, reclaimd_admin;
