/** A job that runs once per tick, on whichever host is first, and makes up for missed ticks: docs/recipes/cron.md */
import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const now = Number(process.argv[3] ?? Math.floor(Date.now() / 60_000)) // the number of this minute
const tenure = await openTenure(store, { holder: `cron-${process.pid}` })

/** Which tick was done last. Keep it where the job's results are; it is only touched under the lease. */
const lastDone = () =>
  fs.existsSync('report.done') ? Number(fs.readFileSync('report.done')) : now - 1

async function report(tick) {
  await sleep(50)
  console.log(`report of tick ${tick}`)
}

const attempt = await tenure.tryAcquire('cron:report', { ttlMs: 30_000, reason: `tick ${now}` })
if (attempt.kind === 'held') {
  console.log(`skipped: ${attempt.blockers[0].holder} is at it`)
} else {
  const { lease } = attempt
  try {
    if (lastDone() >= now) console.log(`skipped: tick ${now} is done`)
    for (let tick = lastDone() + 1; tick <= now; tick++) {
      await report(tick)
      lease.signal.throwIfAborted() // lost meanwhile: another host goes on from the same tick
      fs.writeFileSync('report.done', String(tick))
    }
  } finally {
    await lease.release()
  }
}
await tenure.close()
