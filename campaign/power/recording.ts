/** The writes of a process, as strace saw them, in order: to the database, to its log, and what was acknowledged. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'

export type DiskFile = 'database' | 'log'

export type DiskAct =
  | { readonly kind: 'write'; readonly file: DiskFile; readonly at: number; readonly data: Buffer }
  | { readonly kind: 'truncate'; readonly file: DiskFile; readonly size: number }
  | { readonly kind: 'sync'; readonly file: DiskFile }
  | { readonly kind: 'acknowledged'; readonly events: number }

export interface RecordingFiles {
  readonly database: string
  readonly acknowledged: string
  readonly trace: string
}

const CALLS = 'openat,close,pwrite64,write,fsync,fdatasync,ftruncate'
const STRING_MAX = 1_000_000

export function record(command: readonly string[], files: RecordingFiles): readonly DiskAct[] {
  const options = [
    '-qq',
    '-xx',
    '-s',
    String(STRING_MAX),
    '-e',
    `trace=${CALLS}`,
    '-o',
    files.trace,
  ]
  execFileSync('strace', [...options, ...command], { stdio: ['ignore', 'ignore', 'inherit'] })
  const acts = actsOf(fs.readFileSync(files.trace, 'latin1'), files)
  fs.rmSync(files.trace)
  return acts
}

export function actsOf(trace: string, files: RecordingFiles): readonly DiskAct[] {
  const open = new Map<string, DiskFile | 'acknowledged'>()
  const names = new Map<string, DiskFile | 'acknowledged'>([
    [files.database, 'database'],
    [`${files.database}-wal`, 'log'],
    [files.acknowledged, 'acknowledged'],
  ])
  const acts: DiskAct[] = []
  for (const line of trace.split('\n')) {
    const [, call = '', rest = '', result = ''] = /^(\w+)\((.*)\) += (-?\d+)/.exec(line) ?? []
    if (call === '' || result.startsWith('-')) continue
    if (call === 'openat') {
      const file = names.get(bytesOf(rest).toString())
      if (file !== undefined) open.set(result, file)
      else open.delete(result)
      continue
    }
    const [, handle = ''] = /^(\d+)/.exec(rest) ?? []
    const file = open.get(handle)
    if (call === 'close') open.delete(handle)
    else if (file !== undefined) acts.push(...actOf(call, file, rest))
  }
  return acts
}

function actOf(call: string, file: DiskFile | 'acknowledged', rest: string): readonly DiskAct[] {
  if (file === 'acknowledged') {
    return call === 'write' ? [{ kind: 'acknowledged', events: Number(bytesOf(rest)) }] : []
  }
  if (call === 'fsync' || call === 'fdatasync') return [{ kind: 'sync', file }]
  if (call === 'ftruncate') {
    return [{ kind: 'truncate', file, size: Number(/, (\d+)$/.exec(rest)?.[1]) }]
  }
  if (call !== 'pwrite64') throw new Error(`${call} of the ${file} is not expected`)
  return [{ kind: 'write', file, at: Number(/, (\d+)$/.exec(rest)?.[1]), data: bytesOf(rest) }]
}

/** The bytes of the one string in the arguments of a call, which `-xx` writes as `"\\x61\\x62"`. */
function bytesOf(rest: string): Buffer {
  const [, text = ''] = /"((?:\\x[0-9a-f]{2})*)"/.exec(rest) ?? []
  return Buffer.from(text.replaceAll('\\x', ''), 'hex')
}
