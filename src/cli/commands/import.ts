/**
 * `tenure import seed-c`: takes over a database of the file-leasing design. The source is copied before anything reads it,
 * and what is made gets its name when it is whole, so that neither is ever seen half done.
 */
import path from 'node:path'
import { NOTHING } from '../../core/commit.ts'
import { invalid, isLeaseError, LeaseError } from '../../core/errors.ts'
import { parseSettingKey, parseSettingValue, type SettingKey } from '../../core/settings.ts'
import type { Now } from '../../core/time.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { restoreLedger } from '../../service/restore-ledger.ts'
import type { Store } from '../../store-port/store.ts'
import { accessError } from '../../drivers/sqlite-driver.ts'
import { loadSqlite, sqliteError, type SqliteDatabase } from '../../drivers/sqlite-driver.ts'
import { SqliteStore } from '../../store/sqlite/sqlite-store.ts'
import type { OptionTable } from '../arguments.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import type { Identity } from '../identity.ts'
import { plural, visible } from '../output.ts'
import { missingFileOf } from '../store-access.ts'
import { takeOverLeases, type SeedEvent, type SeedLease, type TakenOver } from '../seed-leases.ts'

export const importCommand: Command = defineCommand({
  positionals: [
    { name: 'FORMAT', help: 'seed-c: a database of the file-leasing design' },
    { name: 'FILE', help: 'the database, which stays as it is' },
  ],
  options: {},
  notes: [
    'Makes the store that --store names, a sqlite: file that does not exist yet or is empty, with the live leases, the ended ones with their history, and the configuration of FILE. Stop the programs that use FILE first: what they write afterwards is not taken over. A line is said for each thing that cannot be: requests that waited or failed, leases that overlapped another one, settings that Tenure does not have.',
  ],
  examples: ['tenure import seed-c old/leases.db --store sqlite:leases.db'],
  run,
})

interface Imported {
  readonly leases: number
  readonly live: number
  readonly events: number
  readonly settings: number
  readonly left: readonly string[]
}

async function run({ positionals, identity, printer, cwd }: Call<OptionTable>): Promise<number> {
  const [format, named = ''] = positionals
  if (format !== 'seed-c') throw invalid('FORMAT', 'must be seed-c', format)
  const source = path.resolve(cwd, named)
  if (ifThere(() => fs.statSync(source))?.isFile() !== true) {
    throw invalid('FILE', 'must be a file that exists', source)
  }
  const target = targetOf(identity)
  const imported = await takeOver(source, target, identity)
  printer.effect(`${target} was made`, { store: identity.url, ...imported }, () => {
    const { leases, live, events, settings, left } = imported
    const what = `${plural(leases, 'lease')} (${live} live), ${plural(events, 'event')}`
    const made = `took over ${what} and ${plural(settings, 'setting')} into ${target}`
    return [made, ...left.map((line) => `left out: ${line}`)].map(visible).join('\n')
  })
  return 0
}

function targetOf(identity: Identity): string {
  const { url } = identity
  if (!url.startsWith('sqlite:')) throw invalid('store', 'must be sqlite:PATH', url)
  const file = missingFileOf(identity)
  if (file === null) throw existing(url)
  return file
}

function existing(url: string): LeaseError {
  return new LeaseError('LEASE_EXISTS', `store must not exist yet, or be an empty file, got ${url}`)
}

async function takeOver(source: string, target: string, identity: Identity): Promise<Imported> {
  const workshop = makeWorkshop(target)
  try {
    const copy = path.join(workshop, 'source.db')
    copyDatabase(source, copy)
    const made = path.join(workshop, 'made.db')
    const imported = await fill(made, identity, await readSource(copy, source))
    if (missingFileOf(identity) === null) throw existing(identity.url)
    fs.renameSync(made, target)
    return imported
  } finally {
    fs.rmSync(workshop, { recursive: true, force: true })
  }
}

/** Beside the target: a file cannot be renamed into another file system. */
function makeWorkshop(target: string): string {
  try {
    fs.mkdirSync(path.dirname(target), { recursive: true })
    return fs.mkdtempSync(path.join(path.dirname(target), '.tenure-import-'))
  } catch (cause) {
    throw accessError(target, cause)
  }
}

/** With what was not yet moved into the file, or must still be rolled back. */
function copyDatabase(source: string, copy: string): void {
  try {
    fs.copyFileSync(source, copy)
    for (const suffix of ['-wal', '-journal']) {
      ifThere(() => fs.copyFileSync(`${source}${suffix}`, `${copy}${suffix}`))
    }
  } catch (cause) {
    throw accessError(source, cause)
  }
}

interface Source {
  readonly leases: readonly SeedLease[]
  readonly history: readonly SeedEvent[]
  readonly configs: readonly SeedConfig[]
}

interface SeedConfig {
  readonly config_key: string
  readonly config_value: string
  readonly scope: string
}

async function readSource(copy: string, source: string): Promise<Source> {
  const Driver = await loadSqlite()
  const database = new Driver(copy)
  try {
    return rowsOf(database, source)
  } catch (error) {
    throw sqliteError(error, source)
  } finally {
    database.close()
  }
}

const COLUMNS = {
  leases:
    'id, file_path, agent_id, created_at, expires_at, ttl_seconds, status, renewal_count, max_renewals, updated_at',
  lease_history: 'lease_id, event_type, event_at, reason',
  lease_configs: 'config_key, config_value, scope',
} as const

function rowsOf(database: SqliteDatabase, source: string): Source {
  const columns = database.prepare('SELECT name FROM pragma_table_info(?)').raw()
  const isThere = (table: keyof typeof COLUMNS): boolean => {
    const names = (columns.all(table) as (readonly [string])[]).map(([name]) => name)
    return COLUMNS[table].split(', ').every((column) => names.includes(column))
  }
  const own = (columns.all('leases') as (readonly [string])[]).map(([name]) => name)
  if (!isThere('leases') || own.includes('fence')) {
    const message = `${source} is not a database of the file-leasing design: it has no such table leases`
    throw new LeaseError('STORE_SCHEMA', message)
  }
  const all = (table: keyof typeof COLUMNS): unknown[] => {
    if (!isThere(table)) return []
    return database.prepare(`SELECT ${COLUMNS[table]} FROM ${table} ORDER BY rowid`).all()
  }
  return {
    leases: all('leases') as SeedLease[],
    history: all('lease_history') as SeedEvent[],
    configs: all('lease_configs') as SeedConfig[],
  }
}

async function fill(file: string, { namespace }: Identity, source: Source): Promise<Imported> {
  const store = await SqliteStore.open({ path: file, ...(namespace === null ? {} : { namespace }) })
  try {
    const taken = takeOverLeases(source, await nowOf(store))
    await restoreLedger(store, taken.events, { resume: false })
    const left = [...taken.left]
    const settings = await configure(store, source.configs, left)
    return { ...counted(taken), settings, left }
  } finally {
    await store.close()
  }
}

function counted({ leases, live, events }: TakenOver): Omit<Imported, 'settings' | 'left'> {
  return { leases, live, events: events.length }
}

/** The store's own clock, on which what is live will be judged. */
function nowOf(store: Store): Promise<Now> {
  return store.transact<Now>([], (_views, now) => ({
    outcome: now,
    commit: NOTHING,
    validUntilUs: null,
  }))
}

async function configure(
  store: Store,
  configs: readonly SeedConfig[],
  left: string[],
): Promise<number> {
  let count = 0
  for (const { config_key, config_value, scope } of configs) {
    const key = settingOf(config_key, config_value)
    const problem = scope === 'global' ? key : 'only global settings can be taken over'
    if (typeof problem === 'string') left.push(`setting ${config_key}: ${problem}`)
    else {
      await store.configure({
        ...{ key: problem.key, value: String(config_value), scope: 'global', resourceId: null },
      })
      count += 1
    }
  }
  return count
}

/** A text says why not. */
function settingOf(key: string, value: unknown): { readonly key: SettingKey } | string {
  try {
    const known = parseSettingKey(key)
    parseSettingValue(known, value)
    return { key: known }
  } catch (error) {
    if (isLeaseError(error)) return error.message
    throw error
  }
}
