/**
 * One round: a process takes leases and stops itself, this one takes them over and writes, and the first is woken.
 *
 *  1. The holder's process acquires its leases, makes their fences known to the guard, and stops itself.
 *  2. This process waits for the leases to run out, acquires them all, and writes through the guard and beside it.
 *  3. The holder's process is woken, reads its leases' states at once, and writes as it had meant to.
 */
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure } from '../../src/index.ts'
import { openPlace, type PlaceKind } from '../../test/processes/guarded-place.ts'
import { ROOT } from '../part.ts'

export interface ZombieOptions {
  readonly directory: string
  readonly place: { readonly kind: PlaceKind; readonly url: string }
  readonly number: number
  readonly holders: number
}

export interface ZombieOrder {
  readonly store: string
  readonly place: ZombieOptions['place']
  readonly resources: readonly string[]
  readonly ttlMs: number
}

/** What the woken process prints. */
export interface ZombieReport {
  readonly stillHeld: number
  readonly stalePassed: number
  readonly staleRefused: number
}

export interface ZombieRound extends ZombieReport {
  readonly holders: number
  readonly unguardedLost: number
}

const ZOMBIE = path.join(ROOT, 'dist-dev', 'campaign', 'holders', 'zombie.js')
const TTL_MS = 1_000
const NEXT_TTL_MS = 60_000

export async function runZombies(options: ZombieOptions): Promise<ZombieRound> {
  const { directory, place: where, number, holders } = options
  const store = `sqlite:${path.join(directory, 'leases.db')}`
  const resources = Array.from({ length: holders }, (_, index) => `document:${number}-${index}`)
  const place = await openPlace(where.kind, where.url)
  if (number === 0) await place.create()
  const order: ZombieOrder = { store, place: where, resources, ttlMs: TTL_MS }
  const zombie = spawn(process.execPath, [ZOMBIE, JSON.stringify(order)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const kill = (): void => void zombie.kill('SIGKILL')
  process.once('exit', kill)
  let output = ''
  zombie.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => zombie.once('close', resolve))
  const tenure = await openTenure(store, { holder: 'next' })
  try {
    while (!isStopped(zombie.pid ?? -1)) await sleep(10)
    let unguardedLost = 0
    const before = await place.read('unguarded')
    for (const resource of resources) {
      const lease = await tenure.acquire(resource, { ttlMs: NEXT_TTL_MS, waitMs: 20_000 })
      await place.write(lease, 1)
      lease.abandon()
    }
    await place.writeUnguarded(before + holders)
    zombie.kill('SIGCONT')
    if ((await ended) !== 0) throw new Error('the process of the holders failed')
    if ((await place.read('unguarded')) < before + holders) unguardedLost += 1
    return { holders, unguardedLost, ...(JSON.parse(output) as ZombieReport) }
  } finally {
    process.off('exit', kill)
    kill()
    await tenure.close()
    await place.close()
  }
}

/** The holder stops itself when it has what it needs; its process is in state T then. */
function isStopped(pid: number): boolean {
  const status = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
  return status.slice(status.lastIndexOf(')') + 2).startsWith('T')
}
