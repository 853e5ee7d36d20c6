/** A database as the file-leasing design makes it: its four migrations, word for word, and rows as its program writes them. */
import type { SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'

const TABLES = `
CREATE TABLE leases (
    id TEXT PRIMARY KEY,              -- UUID of the lease
    file_path TEXT NOT NULL,          -- Path to locked file
    agent_id TEXT NOT NULL,           -- ID of holding agent
    created_at INTEGER NOT NULL,      -- Creation timestamp (Unix)
    expires_at INTEGER NOT NULL,      -- Expiration timestamp (Unix)
    ttl_seconds INTEGER NOT NULL,     -- TTL in seconds
    status TEXT NOT NULL,             -- Lease status
    renewal_count INTEGER DEFAULT 0,  -- Number of renewals
    max_renewals INTEGER DEFAULT -1,  -- Max renewals (-1 = unlimited)
    updated_at INTEGER NOT NULL       -- Last modification timestamp
);
CREATE INDEX idx_leases_file_path ON leases(file_path);
CREATE INDEX idx_leases_agent_id ON leases(agent_id);
CREATE INDEX idx_leases_expires_at ON leases(expires_at);
CREATE INDEX idx_leases_file_status ON leases(file_path, status);
CREATE INDEX idx_leases_agent_status ON leases(agent_id, status);
CREATE TABLE lease_history (
    id TEXT PRIMARY KEY,              -- History record ID
    lease_id TEXT NOT NULL,           -- Reference to lease
    agent_id TEXT NOT NULL,           -- Agent involved
    file_path TEXT NOT NULL,          -- File path
    event_type TEXT NOT NULL,         -- acquired, renewed, released, expired, failed
    status_before TEXT,               -- Status before event
    status_after TEXT,                -- Status after event
    renewal_count INTEGER,            -- Renewal count at time of event
    event_at INTEGER NOT NULL,        -- Event timestamp (Unix)
    reason TEXT                       -- Reason for event
);
CREATE TABLE lease_configs (
    id TEXT PRIMARY KEY,
    config_key TEXT NOT NULL UNIQUE,
    config_value TEXT NOT NULL,
    value_type TEXT NOT NULL,        -- int, float, bool, string, json
    description TEXT,
    scope TEXT DEFAULT 'global',
    resource_id TEXT,
    requires_restart INTEGER DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE TABLE migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT,
    applied_at INTEGER NOT NULL,
    status TEXT DEFAULT 'success',
    error_message TEXT
);
INSERT INTO migrations (version, name, applied_at) VALUES
  (1, 'create_leases_table', 1700000000), (2, 'create_lease_history_table', 1700000000),
  (3, 'create_lease_config_table', 1700000000), (4, 'create_migration_tracking_table', 1700000000);`

export function makeSeedDatabase(database: SqliteDatabase): void {
  database.exec(TABLES)
}

export interface SeedRow {
  readonly id: string
  readonly path: string
  readonly agent: string
  /** Seconds since 1970, as all times of the design. */
  readonly created: number
  readonly expires: number
  readonly status: string
  readonly renewals?: number
  readonly maxRenewals?: number
}

/** A lease as its program writes it, with the events that led there: type and time of each. */
export function addSeedLease(
  database: SqliteDatabase,
  row: SeedRow,
  events: readonly (readonly [type: string, at: number])[],
): void {
  const { id, path, agent, created, expires, status, renewals = 0, maxRenewals = -1 } = row
  const updated = events.at(-1)?.[1] ?? created
  database
    .prepare('INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
    .run(id, path, agent, created, expires, 3600, status, renewals, maxRenewals, updated)
  for (const [index, [type, at]] of events.entries()) {
    database
      .prepare('INSERT INTO lease_history VALUES (?, ?, ?, ?, ?, NULL, ?, ?, ?, NULL)')
      .run(`${id}-${index}`, id, agent, path, type, status, index, at)
  }
}
