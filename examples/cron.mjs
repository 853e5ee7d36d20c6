/** A job that runs once per tick, on whichever host is first, and makes up for missed ticks: docs/recipes/cron.md */
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const now = Number(process.argv[3] ?? Math.floor(Date.now() / 60_000)) // the number of this minute
const tenure = await openTenure(store, { holder: `cron-${process.pid}` })

async function report(tick) {
  await sleep(50)
  console.log(`report of tick ${tick}`)
}

const attempt = await tenure.tryAcquire('cron:report', { reason: `tick ${now}` })
if (attempt.kind === 'held') {
  console.log(`skipped: ${attempt.blockers[0].holder} is at it`)
} else {
  const { lease } = attempt
  let done = (await lease.previous())?.metadata?.done ?? now - 1 // the word of the last run
  const leaveWord = () => lease.update({ metadata: { done } })
  try {
    await leaveWord() // now a run after this one finds it, whatever becomes of this one
    if (done >= now) console.log(`skipped: tick ${now} is done`)
    while (done < now) {
      await report(done + 1)
      lease.signal.throwIfAborted() // lost meanwhile: another host goes on from the same tick
      done += 1
      await leaveWord()
    }
  } finally {
    await lease.release()
  }
}
await tenure.close()
