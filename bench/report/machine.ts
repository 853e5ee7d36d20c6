/** On what it was measured: the figures mean little without it. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { peerNames, ROOT } from '../systems/load-peer.ts'
import { fileSystemOf } from './file-system.ts'
import type { Table } from './table.ts'

export interface Machine {
  readonly facts: readonly (readonly [what: string, which: string])[]
}

/** Asked before anything is measured: afterwards the machine is busy with the measurement itself. */
export async function describeMachine(command: string): Promise<Machine> {
  const [cpu] = os.cpus()
  return {
    facts: [
      ['date', new Date().toISOString().slice(0, 10)],
      ['command', command],
      ['Tenure', tenureVersion()],
      ['processor', `${os.cpus().length} × ${cpu?.model.trim() ?? 'unknown'}`],
      ['memory', `${(os.totalmem() / 2 ** 30).toFixed(1)} GiB`],
      [
        'load before the run',
        os
          .loadavg()
          .map((load) => load.toFixed(2))
          .join(' '),
      ],
      ['system', `${os.type()} ${os.release()}`],
      ['disk of the temporary folder', fileSystemOf(os.tmpdir())],
      ['Node', process.versions.node],
      ['SQLite', await sqliteVersion()],
      ['Redis', firstLine('redis-server', ['--version'])],
      ['PostgreSQL', firstLine('postgres', ['--version'])],
      ['settings of Redis', 'no snapshots, no append-only file, else as it comes'],
      ['settings of PostgreSQL', 'shared_buffers 32MB, max_connections 200, else as it comes'],
      ['drivers', versionsIn(ROOT, ['better-sqlite3', 'ioredis', 'pg'])],
      ['peers', versionsIn(path.join(ROOT, 'bench'), peerNames())],
    ],
  }
}

export function machineTable({ facts }: Machine): Table {
  return { title: 'Machine and versions', columns: ['what', 'which'], rows: facts }
}

/** With the commit, if it is a clone, and whether something was changed since. */
function tenureVersion(): string {
  const manifest = fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')
  const { version } = JSON.parse(manifest) as { readonly version: string }
  try {
    const git = (...args: readonly string[]): string =>
      execFileSync('git', ['-C', ROOT, ...args], { encoding: 'utf8', stdio: 'pipe' }).trim()
    const isChanged = git('status', '--porcelain', '--untracked-files=no') !== ''
    return `${version}, commit ${git('rev-parse', '--short', 'HEAD')}${isChanged ? ' with changes' : ''}`
  } catch {
    return version
  }
}

/** What is there, not what the manifest in the folder asks for. */
export function installedVersion(folder: string, name: string): string {
  try {
    const file = path.join(folder, 'node_modules', name, 'package.json')
    return (JSON.parse(fs.readFileSync(file, 'utf8')) as { readonly version: string }).version
  } catch {
    return 'not installed'
  }
}

function versionsIn(folder: string, names: readonly string[]): string {
  return names.map((name) => `${name} ${installedVersion(folder, name)}`).join(', ')
}

async function sqliteVersion(): Promise<string> {
  const Driver = await loadSqlite()
  const database = new Driver(':memory:')
  const version = database.prepare('SELECT sqlite_version() AS version').get() as {
    readonly version: string
  }
  database.close()
  return version.version
}

function firstLine(program: string, args: readonly string[]): string {
  try {
    return firstOf(execFileSync(requireTestTool(program), [...args], { encoding: 'utf8' }))
  } catch {
    return 'not found'
  }
}

function firstOf(text: string): string {
  return text.split('\n', 1)[0]?.trim() ?? ''
}
