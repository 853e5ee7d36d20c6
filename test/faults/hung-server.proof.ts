/** How late a holder hears that it lost its lease to a server that does not answer, on a quiet machine. */
import { expect, it, onTestFinished } from 'vitest'
import { openTenure } from '../../src/index.ts'
import { Proxy } from '../servers/proxy.ts'
import { courseOf } from './hung-holder.ts'
import { SERVER_STORES } from './server-stores.ts'

const TTL_MS = 1_200
/** After a timer of the same process for the same moment. */
const LATE_MS = 50

it.each(SERVER_STORES)('%s: a holder loses its lease on time', async (_name, store) => {
  const server = await store.start()
  onTestFinished(() => server.close())
  await using proxy = await Proxy.start(server.url)
  await using tenure = await openTenure(proxy.through(server.url), {
    holder: 'ann',
    callMs: 2_000,
  })
  const lease = await tenure.acquire('work:w', { ttlMs: TTL_MS })
  const course = courseOf(lease)
  await new Promise((resolve) => lease.on('renewed', resolve))
  proxy.blackHole()
  const { told, lostAtMs, deadlineMs, timerAtMs } = await course
  proxy.clear()
  expect(told).toEqual(['uncertain', 'lost'])
  expect(lostAtMs - deadlineMs).toBeGreaterThan(-5)
  expect(lostAtMs - timerAtMs).toBeLessThan(LATE_MS)
})
