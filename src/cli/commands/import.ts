/**
 * `tenure import seed-c`: takes over a database of the file-leasing design. The source is copied before anything reads it,
 * and what is made gets its name when it is whole, so that neither is ever seen half done.
 */
import path from 'node:path'
import { NOTHING } from '../../core/commit.ts'
import { invalid, isLeaseError, LeaseError } from '../../core/errors.ts'
import {
  parseSettingKey,
  parseSettingValue,
  SETTING_TABLE,
  type SettingKey,
} from '../../core/settings.ts'
import type { Now } from '../../core/time.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { restoreLedger } from '../../service/restore-ledger.ts'
import type { Store } from '../../store-port/store.ts'
import { accessError } from '../../drivers/sqlite-driver.ts'
import { loadSqlite, sqliteError, type SqliteDatabase } from '../../drivers/sqlite-driver.ts'
import { SEED_LEASE_COLUMNS, isTenureStore } from '../../store/sqlite/file-origin.ts'
import { SqliteStore } from '../../store/sqlite/sqlite-store.ts'
import type { OptionTable } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import type { Identity } from '../identity.ts'
import { plural, visible } from '../output.ts'
import { missingFileOf } from '../store-access.ts'
import { takeOverLeases, type SeedEvent, type SeedLease } from '../seed-leases.ts'

export const importCommand: CliCommand = defineCommand({
  positionals: [
    { name: 'FORMAT', help: 'seed-c: a database of the file-leasing design' },
    { name: 'FILE', help: 'the database, which stays as it is' },
  ],
  options: {},
  notes: [
    'Makes the store that --store names, a sqlite: file that does not exist yet or is empty, with the live leases, the ended ones with their history, and the configuration of FILE. Stop the programs that use FILE first: what they write afterwards is not taken over. A line is said for each thing that cannot be: requests that waited or failed, leases that overlapped another one, rows of the history that tell of no lease or of nothing that changed, settings that Tenure does not have. The last line says how many live leases were left out: nobody has their files in the new store.',
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
  readonly liveLeft: number
}

async function run({ positionals, identity, printer, cwd }: CliCall<OptionTable>): Promise<number> {
  const [format, named = ''] = positionals
  if (format !== 'seed-c') throw invalid('FORMAT', 'must be seed-c', format)
  const source = path.resolve(cwd, named)
  if (ifThere(() => fs.statSync(source))?.isFile() !== true) {
    throw invalid('FILE', 'must be a file that exists', source)
  }
  const target = targetOf(identity)
  const imported = await takeOver(source, target, identity)
  printer.effect(`${target} was made`, { store: identity.url, ...imported }, () => {
    const { leases, live, events, settings, left, liveLeft } = imported
    const what = `${plural(leases, 'lease')} (${live} live), ${plural(events, 'event')}`
    const made = `took over ${what} and ${plural(settings, 'setting')} into ${target}`
    const missing = `${plural(liveLeft, 'live lease was', 'live leases were')} left out`
    const warning = `${missing}: nobody has what they were about in the new store`
    const lines = [made, ...left.map((line) => `left out: ${line}`)]
    return [...lines, ...(liveLeft === 0 ? [] : [warning])].map(visible).join('\n')
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
  /** Tables that cannot be read. */
  readonly left: readonly string[]
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

type SeedTable = 'leases' | 'lease_history' | 'lease_configs'

const COLUMNS: Readonly<Record<SeedTable, readonly string[]>> = {
  leases: SEED_LEASE_COLUMNS,
  lease_history: ['lease_id', 'event_type', 'event_at', 'reason'],
  lease_configs: ['config_key', 'config_value', 'scope'],
}

function rowsOf(database: SqliteDatabase, source: string): Source {
  if (isTenureStore(database)) {
    const message = `${source} is a Tenure store already: use it with --store sqlite:${source}`
    throw new LeaseError('STORE_SCHEMA', message)
  }
  const problem = faultOf(database, 'leases')
  if (problem !== null) {
    const message = `${source} is not a database of the file-leasing design: ${problem}`
    throw new LeaseError('STORE_SCHEMA', message)
  }
  const left: string[] = []
  const all = (table: SeedTable): unknown[] => {
    const fault = faultOf(database, table)
    if (fault === null) {
      return database
        .prepare(`SELECT ${COLUMNS[table].join(', ')} FROM ${table} ORDER BY rowid`)
        .all()
    }
    // A table that is not there at all has nothing that could be left out.
    if (columnsOf(database, table).length > 0) left.push(`table ${table}: ${fault}`)
    return []
  }
  return {
    leases: all('leases') as SeedLease[],
    history: all('lease_history') as SeedEvent[],
    configs: all('lease_configs') as SeedConfig[],
    left,
  }
}

/** Why a table cannot be read; null if it can. */
function faultOf(database: SqliteDatabase, table: SeedTable): string | null {
  const names = columnsOf(database, table)
  if (names.length === 0) return `it has no such table ${table}`
  const missing = COLUMNS[table].filter((column) => !names.includes(column))
  return missing.length === 0 ? null : `its table ${table} has no ${missing.join(', ')}`
}

function columnsOf(database: SqliteDatabase, table: string): readonly string[] {
  const columns = database.prepare('SELECT name FROM pragma_table_info(?)').raw()
  return (columns.all(table) as (readonly [string])[]).map(([name]) => name)
}

async function fill(file: string, { namespace }: Identity, source: Source): Promise<Imported> {
  const store = await SqliteStore.open({ path: file, ...(namespace === null ? {} : { namespace }) })
  try {
    const taken = takeOverLeases(source, await nowOf(store))
    await restoreLedger(store, taken.events, { resume: false })
    const left = [...source.left, ...taken.left]
    const settings = await configure(store, source.configs, left)
    const { leases, live, events, liveLeft } = taken
    return { leases, live, events: events.length, settings, left, liveLeft }
  } finally {
    await store.close()
  }
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
      const value = String(config_value)
      // The design writes a row for each default; that is no user's choice.
      const isDefault = value === String(SETTING_TABLE[problem.key].initial)
      if (!isDefault) {
        await store.configure({ key: problem.key, value, scope: 'global', resourceId: null })
      }
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
