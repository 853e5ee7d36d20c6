/** `tenure/guard`: the other half of fencing, the check inside one's own write. */
import type { RedisLike } from '../drivers/redis-driver.ts'
import type { SqliteLike } from '../drivers/sqlite-driver.ts'
import {
  readAct,
  readCheck,
  requireResult,
  requireSynchronous,
  type Act,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from './act.ts'
import { FileGuard } from './file-guard.ts'
import { judge, type Mark } from './marks.ts'
import {
  PostgresGuard,
  type PostgresClientLike,
  type PostgresLike,
  type PostgresPoolLike,
} from './postgres-guard.ts'
import { RedisGuard, type RedisGuardOptions } from './redis-guard.ts'
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
export type { MemoryGuard }
export type {
  PostgresClientLike,
  PostgresGuard,
  PostgresLike,
  PostgresPoolLike,
} from './postgres-guard.ts'
export type { IoredisLike, NodeRedisLike, RedisLike } from '../drivers/redis-driver.ts'
export type { RedisGuard, RedisGuardOptions, RedisWork, RedisWriteOptions } from './redis-guard.ts'
export type { SqliteLike, SqliteStatementLike } from '../drivers/sqlite-driver.ts'
export type { SqliteGuard } from './sqlite-guard.ts'

/**
 * Marks in the memory of one process, for a server that guards what only it writes and that starts empty. They are
 * lost with the process: whatever outlives it needs a guard that does, too.
 */
class MemoryGuard {
  readonly #marks = new Map<string, Mark>()

  /** Runs `work` if no later holder was seen; throws `STALE_FENCE` otherwise. `work` must be done when it returns. */
  write<Result>(lease: GuardedLease, work: () => Result, options?: WriteOptions): Result {
    const act = readAct(lease, options)
    requireSynchronous(work)
    this.#pass(act)
    return requireResult(work())
  }

  /** See `CheckArguments`. */
  check(...asked: CheckArguments): true {
    this.#pass(readCheck(asked))
    return true
  }

  #pass(act: Act): void {
    const judgement = judge(act, this.#marks)
    if (judgement.kind === 'stale') throw judgement.error
    for (const [key, mark] of judgement.raises) this.#marks.set(key, mark)
  }
}
