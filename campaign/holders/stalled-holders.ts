/** A process that holds many leases, renews them and stalls now and then; it prints what it lost. */
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure, type Lease } from '../../src/index.ts'
import { Random } from '../../sim/random.ts'

export interface StallOrder {
  readonly store: string
  readonly minutes: number
  readonly leases: number
  readonly ttlMs: number
  readonly seed: number
}

export interface StallReport {
  readonly renewals: number
  readonly stalls: number
  readonly losses: readonly string[]
  readonly longestStallMs: number
}

const STALL_SHARE = 0.3
const LOSSES_TOLD_MAX = 10
const AT_ONCE = 100
const TICK_MS = 10

const order = JSON.parse(process.argv[2] ?? '') as StallOrder
const { ttlMs } = order
const random = new Random(`stalls/${order.seed}`)
const tenure = await openTenure(order.store, { holder: 'stalled' })
const losses: string[] = []
let renewals = 0

function watch(lease: Lease): Lease {
  lease.on('renewed', () => (renewals += 1))
  lease.on('lost', ({ error }) => losses.push(`${lease.resource}: ${error.message}`))
  return lease
}

/** As a long collection of garbage would: not even timers run. */
function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** The longest time in which nothing ran, whether this program or a busy machine is the cause. */
let longestStallMs = 0
let lastTickMs = performance.now()
const ticking = setInterval(() => {
  const nowMs = performance.now()
  longestStallMs = Math.max(longestStallMs, nowMs - lastTickMs)
  lastTickMs = nowMs
}, TICK_MS)

const leases: Lease[] = []
while (leases.length < order.leases) {
  const names = Array.from({ length: AT_ONCE }, (_, index) => `work:${leases.length + index}`)
  const acquired = names.map(async (name) => watch(await tenure.acquire(name, { ttlMs })))
  leases.push(...(await Promise.all(acquired)))
}
// Every lease was renewed before the first stall: how long many of them took to acquire is no stall.
while (renewals < order.leases && losses.length === 0) await sleep(ttlMs / 3)
const untilMs = performance.now() + order.minutes * 60_000
let stalls = 0
while (performance.now() < untilMs && losses.length === 0) {
  await sleep(random.between(ttlMs / 3, ttlMs))
  stall(random.between(1, STALL_SHARE * ttlMs))
  stalls += 1
  process.stdout.write(`${renewals} renewals, ${stalls} stalls\n`)
}
clearInterval(ticking)
const told = losses.slice(0, LOSSES_TOLD_MAX)
await Promise.all(leases.filter(({ state }) => state !== 'lost').map((lease) => lease.release()))
await tenure.close()
const report: StallReport = {
  renewals,
  stalls,
  losses: told,
  longestStallMs: Math.round(longestStallMs),
}
process.stdout.write(`${JSON.stringify(report)}\n`)
