/** `tenure/guard`: the other half of fencing, the check inside one's own write. */
import { FileGuard } from './file-guard.ts'
import { MemoryGuard } from './memory-guard.ts'
import { PostgresGuard } from './postgres-guard.ts'
import type { PostgresClientLike, PostgresLike, PostgresPoolLike } from './postgres-transaction.ts'
import type { RedisLike } from '../drivers/redis-driver.ts'
import { RedisGuard, type RedisGuardOptions } from './redis-guard.ts'
import type { SqliteLike } from '../drivers/sqlite-driver.ts'
import { SqliteGuard } from './sqlite-guard.ts'

export interface Guards {
  /** For what is in a SQLite database. */
  sqlite<Database extends SqliteLike>(database: Database): SqliteGuard<Database>
  /** For what is in PostgreSQL. */
  postgres<Client extends PostgresClientLike>(pool: PostgresPoolLike<Client>): PostgresGuard<Client>
  postgres<Client extends PostgresClientLike>(client: Client): PostgresGuard<Client>
  /** For what is in Redis. */
  redis(client: RedisLike, options?: RedisGuardOptions): RedisGuard
  /** For files, with the marks in a SQLite database. */
  file(database: SqliteLike): FileGuard
  /** For a server's own memory. */
  memory(): MemoryGuard
}

export const guard: Guards = {
  sqlite: (database) => new SqliteGuard(database),
  postgres: <Client extends PostgresClientLike>(source: PostgresLike<Client>) => {
    return new PostgresGuard(source)
  },
  redis: (client, options) => new RedisGuard(client, options),
  file: (database) => new FileGuard(database),
  memory: () => new MemoryGuard(),
}

export type { FencedLease } from '../core/fenced-lease.ts'
export type { CheckArguments, GuardedLease, GuardedRoot, HeldAs, WriteOptions } from './act.ts'
export type { FileGuard, FileWriteOptions } from './file-guard.ts'
export { MARK_TABLE, POSTGRES_MARK_TABLE, SQLITE_MARK_TABLE } from './mark-table.ts'
export type { MemoryGuard } from './memory-guard.ts'
export type { PostgresGuard } from './postgres-guard.ts'
export type { PostgresClientLike, PostgresLike, PostgresPoolLike } from './postgres-transaction.ts'
export type { IoredisLike, NodeRedisLike, RedisLike } from '../drivers/redis-driver.ts'
export type { RedisGuard, RedisGuardOptions, RedisWork, RedisWriteOptions } from './redis-guard.ts'
export type { SqliteLike, SqliteStatementLike } from '../drivers/sqlite-driver.ts'
export type { SqliteGuard } from './sqlite-guard.ts'
