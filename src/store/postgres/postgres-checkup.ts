/**
 * What `tenure doctor` looks at on a PostgreSQL server beyond opening the store. What is written to find out whether it
 * can be is rolled back.
 */
import { STORE_CLOCK_BEHIND_US_MAX } from '../../core/limits.ts'
import { parseNamespace } from '../../core/resource.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Checkup } from '../../store-port/store.ts'
import { tryWake } from '../wake-trial.ts'
import {
  connectPostgres,
  type PostgresCaller,
  type PostgresConnection,
} from '../../drivers/postgres-driver.ts'
import { NOW_US } from './postgres-columns.ts'
import type { PostgresStoreOptions } from './postgres-store.ts'

/** What a role needs, as in docs/stores/postgres.md. */
const NEEDED: readonly (readonly [table: string, privileges: readonly string[]])[] = [
  ['namespaces', ['SELECT', 'INSERT', 'UPDATE']],
  ...['realms', 'live_leases', 'ledger', 'requests', 'config'].map((table) => {
    return [table, ['SELECT', 'INSERT', 'UPDATE', 'DELETE']] as const
  }),
]

export async function openPostgresCheckup(options: PostgresStoreOptions): Promise<Checkup> {
  const namespace = parseNamespace(options.namespace ?? 'default')
  const { caller, end } = await connectPostgres(options)
  return {
    looks: [
      { name: 'writing', look: () => tryToWrite(caller, namespace) },
      { name: 'schema', look: () => tellVersion(caller) },
      { name: 'wake-ups', look: () => tryToWake(caller) },
      { name: 'last commit', look: () => tellBehind(caller, namespace) },
      { name: 'pruning', look: () => tryToPrune(caller, namespace) },
    ],
    acceptClock: () => acceptClock(caller, namespace),
    close: end,
  }
}

async function tryToWrite(caller: PostgresCaller, namespace: string): Promise<string> {
  const missing = await caller.during(async (connection) => {
    await connection.run('BEGIN')
    const text = 'UPDATE tenure.namespaces SET watched_until_us = watched_until_us WHERE name = $1'
    await connection.run(text, [namespace])
    await connection.run('ROLLBACK')
    return missingPrivileges(connection)
  })
  if (missing.length > 0) throw new Error(`the role lacks ${missing.join(', ')}`)
  return 'a transaction can be begun and written to, and the role may write every table'
}

async function missingPrivileges(connection: PostgresConnection): Promise<readonly string[]> {
  const missing: string[] = []
  for (const [table, privileges] of NEEDED) {
    for (const privilege of privileges) {
      const text = 'SELECT has_table_privilege($1::text, $2::text)::text'
      const [row] = await connection.run(text, [`tenure.${table}`, privilege])
      if (row?.[0] !== 'true') missing.push(`${privilege} on tenure.${table}`)
    }
  }
  return missing
}

async function tellVersion(caller: PostgresCaller): Promise<string> {
  const text = 'SELECT max(version) FROM tenure.migrations'
  const [row] = await caller.call({ text, values: [], writes: false })
  return `version ${row?.[0]}`
}

/** How far the clock is behind the last commit of any realm, in milliseconds. */
async function tellBehind(caller: PostgresCaller, namespace: string): Promise<string> {
  const text = `SELECT coalesce(max(r.last_us), 0) - ${NOW_US} FROM tenure.realms AS r
    JOIN tenure.namespaces AS n ON n.number = r.namespace WHERE n.name = $1`
  const [row] = await caller.call({ text, values: [namespace], writes: false })
  const behindUs = Number(row?.[0] ?? 0)
  if (behindUs <= STORE_CLOCK_BEHIND_US_MAX) return 'the clock is not behind the last commit'
  throw new Error(
    `the clock is ${Math.ceil(behindUs / 1_000)} ms behind the last commit: commands there fail until it has caught up, or tenure doctor --accept-clock says that it is right`,
  )
}

/** Fences and wall times stay what they are, and never go back. */
async function acceptClock(caller: PostgresCaller, namespace: string): Promise<string> {
  const text = `WITH accepted AS (UPDATE tenure.realms SET last_us = ${NOW_US}
      WHERE last_us > ${NOW_US}
        AND namespace = (SELECT number FROM tenure.namespaces WHERE name = $1) RETURNING 1)
    SELECT count(*) FROM accepted`
  const [row] = await caller.call({ text, values: [namespace], writes: true })
  return `${row?.[0]} realms had commits later than the clock, and go on by it`
}

/** As a waiting session listens, and as a commit sends: over two connections. */
function tryToWake(caller: PostgresCaller): Promise<string> {
  const channel = `tenure_doctor_${systemRuntime.uuid().replaceAll('-', '')}`
  return tryWake({
    runtime: systemRuntime,
    listen: async (heard) => {
      const client = await caller.connectBeside()
      client.on('notification', heard)
      const stop = (): void => client.release()
      try {
        await caller.ask(client, `LISTEN ${channel}`)
      } catch (error) {
        stop()
        throw error
      }
      return stop
    },
    send: () =>
      caller.call({ text: 'SELECT pg_notify($1, $2)', values: [channel, ''], writes: false }),
  })
}

/** Nothing ended before 1970. */
async function tryToPrune(caller: PostgresCaller, namespace: string): Promise<string> {
  await caller.during(async (connection) => {
    await connection.run('BEGIN')
    const text = `SELECT tenure.prune_v9(number, 0, 0, 1, '') FROM tenure.namespaces WHERE name = $1`
    await connection.run(text, [namespace])
    await connection.run('ROLLBACK')
  })
  return 'what has ended can be pruned'
}
