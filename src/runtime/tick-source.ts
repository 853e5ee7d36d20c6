/**
 * The deciding clock of embedded stores: the host's monotonic clock, shared by all its processes, and the domain that
 * says which monotonic clock it is. A new boot, another host or another time namespace is another domain.
 *
 * Ticks of another domain end every lease, so nothing here guesses: what the system does not have is absent, and what it
 * has and does not tell at the moment is thrown.
 */
import os from 'node:os'
import { hrtimeUs, wallClockMs } from './system-runtime.ts'
import { fs, ifThere, isAbsence } from './file-system.ts'

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
    tickUs: hrtimeUs,
    wallMs: wallClockMs,
  }
}

function hostId(): string {
  const identity = textOf('/etc/machine-id') ?? os.hostname()
  return fingerprint(identity)
}

/**
 * 48 bits: enough to tell hosts apart, too few to find the machine id that they were made of. Not a hash of
 * `node:crypto`, which is 6 ms of every start-up with all that it loads.
 */
function fingerprint(text: string): string {
  const digits = [0x811c9dc5, 0x01000193].map((seed) => {
    let hash = seed
    for (const byte of new TextEncoder().encode(text)) hash = mix(hash ^ byte)
    return hash.toString(16).padStart(8, '0')
  })
  return digits.join('').slice(0, 12)
}

/** Spreads every bit of a 32-bit number over all of it. */
function mix(value: number): number {
  const half = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  const whole = Math.imul(half ^ (half >>> 13), 0xc2b2ae35)
  return (whole ^ (whole >>> 16)) >>> 0
}

function bootId(): string | null {
  if (process.platform === 'darwin') return trySysctl('kern.bootsessionuuid')
  return textOf('/proc/sys/kernel/random/boot_id')
}

/**
 * Processes in different time namespaces see different monotonic clocks although they share a boot. A sandbox without the
 * file reads the same clock as a process beside it that has one and is in no namespace, and calls it the same.
 */
function clockId(): string {
  const offsets = textOf('/proc/self/timens_offsets') ?? ''
  const [, seconds = '0', nanoseconds = '0'] = /^monotonic\s+(-?\d+)\s+(\d+)/m.exec(offsets) ?? []
  return `${seconds}.${nanoseconds}`
}

/** Null for a file that is not there, or empty. */
function textOf(path: string): string | null {
  return ifThere(() => fs.readFileSync(path, 'utf8'))?.trim() || null
}

/** Loaded only on the platform that needs it: it costs every other start-up a few milliseconds. */
function trySysctl(name: string): string | null {
  try {
    const { execFileSync } = process.getBuiltinModule('node:child_process')
    return execFileSync('sysctl', ['-n', name], { encoding: 'utf8' }).trim() || null
  } catch (error) {
    // It is not installed, or knows no such name; anything else leaves the question open.
    if (isAbsence(error) || (error instanceof Error && 'status' in error && error.status === 1)) {
      return null
    }
    throw error
  }
}
