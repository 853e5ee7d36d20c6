/**
 * What the page says where it does not know: of a hold whose beginning it has not read, and of an act whose answer was lost.
 * And that it does not go on asking for what its server does not have.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import { workshop } from '../cli/tenure-process.ts'
import { launchBrowser, openPage, serve } from './browsing.ts'
import { Stage } from './scene.ts'

let browser: Browser

beforeAll(async () => {
  browser = await launchBrowser()
})

afterAll(() => browser.close())

it('estimates a wait from what it has read of a hold that was renewed more often than that', async () => {
  const shop = workshop()
  const server = await serve(shop)
  const api = await openApi(shop.storeUrl, {})
  const stage = new Stage(api)
  const waiting = stage.keepWaiting()
  onTestFinished(async () => {
    stage.end()
    await waiting
    await api.close()
  })
  const long = await stage.take({ resource: 'work:long', holder: 'ann' })
  await Promise.all(Array.from({ length: 1_100 }, () => stage.renew(long, 'ann')))
  await stage.release(long, 'ann')
  await stage.take({ resource: 'work:long', holder: 'bob' })
  await stage.take({ resource: 'work:long', holder: 'cleo', waitMs: 600_000 })
  const page = await openPage({ browser })
  await page.goto(`${server.url}/#/resource?name=work%3Along`)
  const told = page.getByText(/^Estimated from how long it is usually held/)
  expect(await told.textContent()).not.toMatch(/ d /)
})

it('says that a revocation may have happened, where its answer was lost', async () => {
  const shop = workshop()
  const server = await serve(shop, ['--operator'])
  const api = await openApi(shop.storeUrl, {})
  onTestFinished(() => api.close())
  const id = await new Stage(api).take({ resource: 'work:W-1', holder: 'ann' })
  const page = await openPage({ browser })
  await page.goto(`${server.url}/#/resource?name=work%3AW-1`)
  await page.route('**/revoke', async (route) => {
    await route.fetch()
    await route.abort()
  })
  await page.getByRole('button', { name: 'Revoke…' }).click()
  await page.getByRole('button', { name: 'none' }).click()
  await page.locator('dialog').getByRole('button', { name: 'Revoke', exact: true }).click()
  const outcome = await page.locator('dialog .outcome').textContent()
  expect((await api.get({ id }))?.state).toBe('revoked')
  expect(outcome).toBe('It is not known whether it happened: the server cannot be reached')
})

it('says that the server has fallen silent, where its stream stands and brings nothing', async () => {
  const server = await serve(workshop())
  const page = await openPage({ browser })
  await page.clock.install()
  await page.goto(server.url)
  const state = page.locator('.connection')
  await expect.poll(() => state.textContent()).toBe('live')
  // It is asked again, and does not answer.
  await page.route('**/v1/caller', () => undefined)
  await page.clock.fastForward(41_000)
  await expect.poll(() => state.textContent()).toContain('the server has said nothing for 40 s')
})

it('asks a server that has no keys of polling services for them once', async () => {
  const server = await serve(workshop())
  const page = await openPage({ browser })
  const asked: string[] = []
  page.on('request', (request) => asked.push(new URL(request.url()).pathname))
  await page.goto(`${server.url}/#/fleet`)
  const ofFleets = (): readonly string[] => asked.filter((path) => path.startsWith('/v1/fleets/'))
  // What the view reads again, it reads every five seconds.
  const readAgain = (): number => asked.filter((path) => path === '/v1/events').length
  await expect.poll(readAgain, { timeout: 60_000 }).toBeGreaterThan(3)
  expect(ofFleets()).toEqual(['/v1/fleets/poll'])
})
