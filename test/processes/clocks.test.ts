/**
 * Clocks as the operating system can bend them: wall time set forward and back (faketime), another monotonic clock
 * (a time namespace), another boot (a boot id of its own in a mount namespace). Each question is asked by a process
 * of its own. A tool that is missing fails the test with the name of what to install.
 */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { withWallClock } from '../fake-clock.ts'
import type { ClockAnswer } from './clock-worker.ts'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/clock-worker.js')
let directory: string
let file: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-clocks-'))
  file = path.join(directory, 'leases.db')
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

interface Circumstances {
  /** A program, with its arguments, that runs the worker under other clocks. */
  readonly wrapper?: readonly string[]
  readonly ttlMs?: number
}

async function ask(resource: string, circumstances: Circumstances = {}): Promise<ClockAnswer> {
  const { wrapper = [], ttlMs = 60_000 } = circumstances
  const command = [...wrapper, process.execPath, WORKER, file, resource, String(ttlMs)]
  const [program = '', ...args] = command
  const { stdout } = await promisify(execFile)(program, args)
  return JSON.parse(stdout) as ClockAnswer
}

function wallShifted(by: string): Circumstances {
  return { wrapper: withWallClock(by) }
}

const OTHER_CLOCK: Circumstances = { wrapper: ['unshare', '-rT', '--monotonic', '1000000'] }

function otherBoot(): Circumstances {
  const bootId = path.join(directory, 'boot_id')
  fs.writeFileSync(bootId, '11111111-2222-4333-8444-555555555555\n')
  const bind = `mount --bind ${bootId} /proc/sys/kernel/random/boot_id && exec "$@"`
  return { wrapper: ['unshare', '-rm', 'sh', '-c', bind, 'sh'] }
}

describe('setting the wall clock', () => {
  it('forward by ten days does not end a lease', async () => {
    expect((await ask('work:w')).kind).toBe('granted')
    const later = await ask('work:w', wallShifted('+10d'))
    expect(later.wallMs).toBeGreaterThan(Date.now() + 9 * 86_400_000)
    expect(later).toMatchObject({ kind: 'held', blockers: ['lease'], states: ['active'] })
  })

  it('back by ten days neither prolongs a lease nor lowers a fence', async () => {
    const first = await ask('work:w', { ttlMs: 300 })
    await sleep(320)
    const second = await ask('work:w', wallShifted('-10d'))
    expect(second.wallMs).toBeLessThan(Date.now() - 9 * 86_400_000)
    expect(second).toMatchObject({ kind: 'granted', states: ['expired'] })
    expect(second.fence).toBeGreaterThan(first.fence ?? Infinity)
  })

  it('forward and back again leaves fences growing', async () => {
    const future = await ask('work:w', { ...wallShifted('+400d'), ttlMs: 1 })
    const present = await ask('work:w')
    expect(present.kind).toBe('granted')
    expect(present.fence).toBeGreaterThan(future.fence ?? Infinity)
  })
})

describe('another clock', () => {
  it('of the same boot sees the lease as over, and gives it to nobody before its TTL has passed', async () => {
    expect((await ask('work:w', { ttlMs: 4_000 })).kind).toBe('granted')
    const early = await ask('work:w', OTHER_CLOCK)
    expect(early).toMatchObject({ kind: 'held', blockers: ['lock_delay'], states: ['expired'] })
    await sleep(4_100)
    expect((await ask('work:w', OTHER_CLOCK)).kind).toBe('granted')
  })

  it('that comes back does not bring a lease back to life', async () => {
    expect((await ask('work:w', { ttlMs: 60_000 })).kind).toBe('granted')
    await ask('work:other', OTHER_CLOCK)
    expect((await ask('work:w')).states).toEqual(['expired'])
  })
})

describe('a reboot', () => {
  it('frees what its dead processes held, at once, with a higher fence', async () => {
    const before = await ask('work:w', { ttlMs: 3_600_000 })
    const after = await ask('work:w', otherBoot())
    expect(after).toMatchObject({ kind: 'granted', states: ['expired'] })
    expect(after.fence).toBeGreaterThan(before.fence ?? Infinity)
  })
})
