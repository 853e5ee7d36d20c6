/**
 * The deciding clock of embedded stores: the host's monotonic clock, shared by all its processes, and the domain that
 * says which monotonic clock it is. A new boot, another host or another time namespace is another domain.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'

export interface TickSource {
  /** `host/boot/clock`; null where the platform cannot tell one boot from the next. */
  readonly domain: string | null
  readonly host: string
  tickUs(): number
  wallMs(): number
}

export function systemTickSource(): TickSource {
  const host = hostId()
  const boot = bootId()
  return {
    host,
    domain: boot === null ? null : `${host}/${boot}/${clockId()}`,
    tickUs: () => Math.floor(Number(process.hrtime.bigint() / 1000n)),
    wallMs: () => Date.now(),
  }
}

function hostId(): string {
  const identity = tryRead('/etc/machine-id') ?? os.hostname()
  return createHash('sha256').update(identity).digest('hex').slice(0, 12)
}

function bootId(): string | null {
  if (process.platform === 'darwin') return trySysctl('kern.bootsessionuuid')
  return tryRead('/proc/sys/kernel/random/boot_id')
}

/** Processes in different time namespaces see different monotonic clocks although they share a boot. */
function clockId(): string {
  const offsets = tryRead('/proc/self/timens_offsets') ?? ''
  const monotonic = /^monotonic\s+(-?\d+)\s+(\d+)/m.exec(offsets)
  return monotonic === null ? '0' : `${monotonic[1]}.${monotonic[2]}`
}

function tryRead(path: string): string | null {
  try {
    return fs.readFileSync(path, 'utf8').trim() || null
  } catch {
    return null
  }
}

/** Loaded only on the platform that needs it: it costs every other start-up a few milliseconds. */
function trySysctl(name: string): string | null {
  try {
    const { execFileSync } = process.getBuiltinModule('node:child_process')
    return execFileSync('sysctl', ['-n', name], { encoding: 'utf8' }).trim() || null
  } catch {
    return null
  }
}
