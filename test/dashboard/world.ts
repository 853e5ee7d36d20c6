/**
 * A store with 10,000 leases of yesterday, yesterday's ledger, sealed, and a small world that is played while a page looks on;
 * and what each view of that page must show: what was, what is, and what happens while it is looked at.
 */
import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { expect } from 'vitest'
import { openApi } from '../../src/open.ts'
import {
  newWorkshopDirectory,
  startProgram,
  until,
  workshopIn,
  type Workshop,
} from '../cli/tenure-process.ts'
import { withWallClock } from '../fake-clock.ts'
import { go, newPage, row, startServing } from './browsing.ts'
import { localMoment, playScene, Stage } from './scene.ts'

/** By a process whose wall clock is a day behind: 10,000 leases that are still live today, and others that ended. */
const YESTERDAY = `
  const [, dist, storeUrl] = process.argv
  const { openTenure } = await import(dist + 'index.js')
  const { openApi } = await import(dist + 'open.js')
  const api = await openApi(storeUrl)
  for (let first = 10_000; first < 20_000; first += 1_000) {
    const chunk = Array.from({ length: 1_000 }, (_, offset) => api.acquire({
      id: crypto.randomUUID(), resource: 'zone:' + (first + offset), holder: 'zones', session: 'zones',
      waitMs: 0, ttlMs: 3 * 86_400_000, maxRenewals: -1,
    }))
    await Promise.all(chunk)
  }
  await api.close()
  const [ann, bob] = await Promise.all(
    ['ann', 'bob'].map((holder) => openTenure(storeUrl, { holder })),
  )
  for (const name of ['work:old', 'workflow:old']) {
    const lease = await ann.acquire(name, { reason: 'yesterday' })
    await lease.release()
  }
  await (await ann.acquire('session:old')).transfer('bob')
  await (await bob.acquire('session:old')).release()
  const [one, other] = [await ann.acquire('db:old-1'), await bob.acquire('db:old-2')]
  const waits = [one.acquire('db:old-2', { waitMs: 60_000 }), other.acquire('db:old-1', { waitMs: 60_000 })]
  const refused = await Promise.race(waits.map((wait) => wait.then(() => null, (error) => error.code)))
  if (refused !== 'DEADLOCK') throw new Error('no deadlock: ' + refused)
  await Promise.all([one.release(), other.release()])
  await Promise.allSettled(waits)
  await Promise.all([ann.close(), bob.close()])
`

async function playYesterday({ directory, storeUrl }: Workshop): Promise<void> {
  const dist = fileURLToPath(new URL('../../dist/', import.meta.url))
  const script = ['--input-type=module', '--eval', YESTERDAY, dist, storeUrl]
  const command = [...withWallClock('-1d'), process.execPath, ...script]
  const { code, stderr } = await startProgram(command, { cwd: directory }).ended
  expect([code, stderr]).toEqual([0, ''])
}

export interface World {
  readonly shop: Workshop
  readonly page: Page
  readonly stage: Stage
  /** When work:old was granted. */
  readonly yesterdayMs: number
  stopServer(): Promise<void>
  /** At the address that it had. */
  startServer(): Promise<void>
  close(): Promise<void>
}

const BEAT_EVERY_MS = 50

/** Plays for some ten seconds, before a page that shows Health. */
export async function openWorld(browser: Browser): Promise<World> {
  const directory = newWorkshopDirectory()
  const shop = workshopIn(directory)
  const sealing = ['--ledger', `${directory}/ledger`, '--keys', `${directory}/keys.json`]
  await shop.json(['keys', 'generate', ...sealing.slice(2)])
  await playYesterday(shop)
  const granted = ['history', 'work:old', '--type', 'issued']
  const [first] = await shop.json<readonly { event: { atMs: number } }[]>(granted)
  await shop.json(['ledger', 'seal', ...sealing])
  let server = await startServing(shop, sealing)
  const { page, close: closePage } = await newPage({ browser, colorScheme: 'dark' })
  await page.goto(`${server.url}/#/health`)
  await page.getByText('Nothing has failed').waitFor()
  await page.getByText('live', { exact: true }).waitFor()
  const scene = await playScene(shop.storeUrl)
  // While the last minute still has what was played.
  const granting = page.locator('.plot', { hasText: 'grants' }).locator('b')
  await until(async () => Number(await granting.textContent()) > 40)
  const stage = new Stage(await openApi(shop.storeUrl, {}))
  const beat = beating(stage)
  return {
    ...{ shop, page, stage, yesterdayMs: first?.event.atMs ?? 0 },
    stopServer: () => server.stop(),
    startServer: async () => {
      const where = ['--listen', new URL(server.url).host]
      server = await startServing(shop, [...sealing, ...where])
    },
    close: async () => {
      await beat.end()
      await Promise.all([scene.close(), stage.api.close(), closePage(), server.stop()])
      fs.rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Events arrive all the time: of a lease that is renewed, so that no view runs out of the past that it shows. */
function beating(stage: Stage): { readonly end: () => Promise<void> } {
  let isOver = false
  const beats = async (): Promise<void> => {
    const id = await stage.take({ resource: 'busy:beat', holder: 'beat' })
    while (!isOver) {
      await stage.renew(id, 'beat')
      await sleep(BEAT_EVERY_MS)
    }
  }
  const ended = beats()
  return {
    end: async () => {
      isOver = true
      await ended
    },
  }
}

type Look = (world: World, stamp: string) => Promise<void>

/** By the view: what it shows of yesterday, of today, and of what happens meanwhile to something that has `stamp` in its name. */
export const LOOKS: Readonly<Record<string, Look>> = {
  now: async ({ page, stage }, stamp) => {
    await go(page, 'now?q=zone:15000')
    await row(page, '15000').locator('.cell.since', { hasText: '1 d' }).waitFor()
    await go(page, 'now?q=deploy')
    await row(page, 'ci-4713').locator('.mark.held').waitFor()
    await go(page, `now?q=${stamp}`)
    await page.getByText('No lease matches').waitFor()
    const id = await stage.take({ resource: `work:${stamp}`, holder: 'ann' })
    await row(page, stamp).waitFor()
    await stage.release(id, 'ann')
    await row(page, stamp).waitFor({ state: 'detached' })
  },
  resource: async ({ page, stage }, stamp) => {
    await go(page, 'resource?name=work%3Aold')
    await page.locator('.events tr', { hasText: /released\s*ann/ }).waitFor()
    await page.locator('.hold.released').waitFor()
    await go(page, 'resource?name=deploy%3Aprod')
    await page.locator('.card', { hasText: 'ci-4713' }).getByText('release 2.4.0').waitFor()
    await go(page, `resource?name=seen%3A${stamp}`)
    await page.getByText('No holder.').waitFor()
    const id = await stage.take({ resource: `seen:${stamp}`, holder: 'ann' })
    await page.locator('.card', { hasText: 'ann' }).waitFor()
    await stage.release(id, 'ann')
    await page.locator('.events tr', { hasText: /released\s*ann/ }).waitFor()
    await page.getByText('No holder.').waitFor()
  },
  timeline: async ({ page, stage, yesterdayMs }, stamp) => {
    await go(page, `timeline?q=old&from=${yesterdayMs - 300_000}&to=${yesterdayMs + 300_000}`)
    await page.locator('.lane-name', { hasText: 'work:old' }).waitFor()
    await page.locator('.hold.deadlock').waitFor()
    await go(page, 'timeline?span=600000&q=deploy')
    await expect.poll(() => page.locator('.hold.released').count()).toBe(3)
    await go(page, `timeline?span=600000&q=${stamp}-lane`)
    await page.getByText('Nothing happened in this time').waitFor()
    const id = await stage.take({ resource: `work:${stamp}-lane`, holder: 'ann' })
    await page.locator('.lane-name', { hasText: stamp }).waitFor()
    await stage.release(id, 'ann')
    await page.locator('.hold.released').waitFor()
  },
  waits: async ({ page, stage }, stamp) => {
    await go(page, 'waits')
    await page.locator('.card.wide', { hasText: 'db:old-1' }).waitFor()
    await page.locator('.card.wide', { hasText: 'db:stock' }).waitFor()
    await page.locator('.node', { hasText: 'deploy:prod' }).waitFor()
    const resource = `queue:${stamp}`
    const id = await stage.take({ resource, holder: 'ann' })
    await stage.take({ resource, holder: 'bob', waitMs: 60_000 })
    await page.locator('.node', { hasText: stamp }).waitFor()
    await stage.release(id, 'ann')
    await page.locator('.node', { hasText: stamp }).waitFor({ state: 'detached' })
  },
  fleet: async ({ page, stage }, stamp) => {
    await go(page, 'fleet')
    await page.locator('.events tr', { hasText: 'ann → bob' }).waitFor()
    await page.getByText('3 nodes, 24 sessions').waitFor()
    const id = await stage.take({ resource: `session:${stamp}`, holder: 'poller-c' })
    await page.locator('.card', { hasText: 'poller-c' }).getByText(stamp).waitFor()
    await page.getByText('3 nodes, 25 sessions').waitFor()
    await stage.release(id, 'poller-c')
    await page.getByText('3 nodes, 24 sessions').waitFor()
  },
  workflow: async ({ page, stage }, stamp) => {
    await go(page, 'workflow')
    await page.locator('tr', { hasText: 'workflow:old' }).getByText('released').waitFor()
    await page.locator('tr', { hasText: 'checkout-118' }).waitFor()
    await stage.take({ resource: `workflow:${stamp}`, holder: 'orchestrator-3' })
    await page.locator('tr', { hasText: stamp }).getByText('orchestrator-3').waitFor()
  },
  ledger: async ({ page, stage, yesterdayMs }, stamp) => {
    await go(page, `ledger?name=db%3Aold-1&at=${localMoment(yesterdayMs + 600_000)}`)
    await page.getByText('Whole: nothing was changed or left out').waitFor()
    await page.getByText('No holder at').waitFor()
    await go(page, `ledger?name=zone%3A15000&at=${localMoment(yesterdayMs + 600_000)}`)
    await page.locator('tr', { hasText: 'zones' }).getByText('not by now').waitFor()
    await stage.take({ resource: `work:${stamp}-asked`, holder: 'ann' })
    await go(page, `ledger?name=work%3A${stamp}-asked&at=${localMoment(Date.now() + 60_000)}`)
    await page.locator('tr', { hasText: 'ann' }).getByText('not by now').waitFor()
  },
  health: async ({ page, stage }, stamp) => {
    await go(page, 'health')
    await page.getByText(/^10,0\d\d held/).waitFor()
    await page.locator('td', { hasText: 'history' }).waitFor()
    expect(await page.locator('.plot').count()).toBe(7)
    const expiries = page.locator('.plot', { hasText: 'expiries' }).locator('b')
    const before = Number(await expiries.textContent())
    // Those that there were may leave the last minute meanwhile.
    for (let index = 1; index <= before + 5; index += 1) {
      await stage.take({ resource: `over:${stamp}-${index}`, holder: 'ann', ttlMs: 1 })
    }
    const all = expect.poll(async () => Number(await expiries.textContent()))
    await all.toBeGreaterThanOrEqual(before + 4)
    await page.locator('.connection.live').waitFor()
  },
}
