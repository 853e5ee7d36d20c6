/** A process that acquires and releases many leases, and prints how much memory it used before and after. */
import { openTenure } from '../../src/index.ts'

export interface LeasesOrder {
  readonly store: string
  readonly leases: number
  readonly minutes: number
}

export interface LeasesReport {
  readonly leases: number
  readonly heapBefore: number
  readonly heapAfter: number
  /** Timers, sockets and files that were still open after closing. */
  readonly left: readonly string[]
}

/** What a client and its store remember is bounded, by 200,000 resources at most; it is full after this. */
const WARM_UP = 300_000
const IN_FLIGHT = 64
const SAY_EVERY = 20_000
const CLOSED_WITHIN_MS = 500

const { store, leases, minutes } = JSON.parse(process.argv[2] ?? '') as LeasesOrder
// Standard output is a pipe from its first use on.
process.stdout.write('begins\n')
const before = new Set(process.getActiveResourcesInfo())
let made = 0

/** A socket that was ended, and its driver's timer with it, is gone a few turns of the loop later. */
async function leftOpen(): Promise<readonly string[]> {
  const untilMs = performance.now() + CLOSED_WITHIN_MS
  for (;;) {
    await new Promise((resolve) => setImmediate(resolve))
    const left = process.getActiveResourcesInfo().filter((resource) => {
      return !before.has(resource) && resource !== 'Immediate'
    })
    if (left.length === 0 || performance.now() > untilMs) return left
  }
}

async function run(): Promise<Omit<LeasesReport, 'left'>> {
  const tenure = await openTenure(store, { holder: 'soak' })
  const untilMs = performance.now() + minutes * 60_000
  const makeUpTo = async (count: number): Promise<void> => {
    while (made < count && performance.now() < untilMs) {
      made += 1
      if (made % SAY_EVERY === 0) process.stdout.write(`${made} leases\n`)
      const lease = await tenure.acquire(`work:${made}`, { ttlMs: 30_000 })
      await lease.release()
    }
  }
  const makeAll = (count: number): Promise<unknown> => {
    return Promise.all(Array.from({ length: IN_FLIGHT }, () => makeUpTo(count)))
  }
  await makeAll(WARM_UP)
  const heapBefore = await heapUsed()
  await makeAll(leases)
  const heapAfter = await heapUsed()
  await tenure.close()
  return { leases: made, heapBefore, heapAfter }
}

/** The smallest of a few looks: a collection leaves what finalisers have not let go yet. */
async function heapUsed(): Promise<number> {
  let smallest = Infinity
  for (let look = 0; look < 5; look += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    globalThis.gc?.()
    smallest = Math.min(smallest, process.memoryUsage().heapUsed)
  }
  return smallest
}

const report = await run()
process.stdout.write(
  `${JSON.stringify({ ...report, left: await leftOpen() } satisfies LeasesReport)}\n`,
)
