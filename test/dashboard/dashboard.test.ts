/** The dashboard in a real browser, before a real server on SQLite, while real processes take leases. */
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { startProgram, MAIN, workshop, type Workshop } from '../cli/tenure-process.ts'
import { acquireMany, browsing, launchBrowser, openPage, serve } from './browsing.ts'
import { playScene } from './scene.ts'

const BUILT = fileURLToPath(new URL('../../dist/dashboard/', import.meta.url))
const AXE = fileURLToPath(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url))

let browser: Browser

beforeAll(async () => {
  browser = await launchBrowser()
})

afterAll(async () => {
  await browser.close()
})

function row(page: Page, text: string): ReturnType<Page['locator']> {
  return page.locator('.canvas .row', { hasText: text })
}

describe('the files of the page', () => {
  it('have at most 80 KB of compressed script and style, and nothing inline', () => {
    const assets = fs.readdirSync(path.join(BUILT, 'assets'))
    const program = assets.filter((name) => /\.(js|css)$/.test(name))
    expect(program.length).toBeGreaterThan(1)
    const bytes = program.map((name) => {
      return gzipSync(fs.readFileSync(path.join(BUILT, 'assets', name))).length
    })
    expect(bytes.reduce((sum, one) => sum + one, 0)).toBeLessThan(80 * 1_024)
    const html = fs.readFileSync(path.join(BUILT, 'index.html'), 'utf8')
    expect(html).not.toMatch(/<style|style=|<script(?![^>]* src=)|https?:/)
  })

  it('are compressed, kept for ever by their names, and under a policy that allows the server alone', async () => {
    const { url } = await serve(workshop())
    const page = await fetch(`${url}/`, { headers: { 'Accept-Encoding': 'br' } })
    expect(page.headers.get('cache-control')).toBe('no-cache')
    expect(page.headers.get('content-encoding')).toBe('br')
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).not.toContain('unsafe')
    const [, script = ''] = /src="\.\/(assets\/[^"]+)"/.exec(await page.text()) ?? []
    expect(script).toMatch(/-[\w-]{8}\.js$/)
    const asset = await fetch(`${url}/${script}`, { headers: { 'Accept-Encoding': 'gzip' } })
    expect(asset.headers.get('cache-control')).toContain('immutable')
    expect(asset.headers.get('content-encoding')).toBe('gzip')
    for (const lost of ['assets/none.js', 'assets/..%2findex.html', `${script}.br`]) {
      expect((await fetch(`${url}/${lost}`)).status, lost).toBe(404)
    }
  })
})

describe('Now', () => {
  it('shows a lease that the command line takes, who waits for it, its handover, and its end', async () => {
    const { shop, page } = await browsing({ browser })
    await page.getByText('Nothing is held').waitFor()
    const taken = [
      'acquire',
      'deploy:prod',
      '--holder',
      'ann',
      '--ttl',
      '1h',
      '--reason',
      'release 2',
    ]
    await shop.json(taken)
    await row(page, 'ann').getByText('release 2').waitFor()
    expect(await row(page, 'ann').locator('.cell.remaining').textContent()).toMatch(
      /^(59|60) m|^1 h/,
    )
    const waiting = shop.start([
      'acquire',
      'deploy:prod',
      '--holder',
      'bob',
      '--wait',
      '1h',
      '--ttl',
      '4s',
    ])
    await row(page, 'bob').getByText('in the queue').waitFor()
    expect(await row(page, 'ann').locator('.cell.queue').textContent()).toBe('1')
    await shop.json(['release', 'deploy:prod', '--holder', 'ann'])
    await waiting.ended
    await row(page, 'ann').waitFor({ state: 'detached' })
    await row(page, 'bob').locator('.mark.held').waitFor()
    // Nobody renews it: the bar runs out, and the row goes.
    await row(page, 'bob').locator('.mark.expiring').waitFor()
    await row(page, 'bob').waitFor({ state: 'detached' })
  })

  it('is filtered as one types and sorted, and the address brings the same view back', async () => {
    const { shop, page, server } = await browsing({ browser })
    for (const [name, holder] of [
      ['file:/repo/src/a.ts', 'ann'],
      ['file:/repo/src/b.ts', 'bob'],
      ['work:x', 'ann'],
    ] as const) {
      await shop.json(['acquire', name, '--holder', holder, '--ttl', '1h'])
    }
    await row(page, 'work:x').waitFor()
    // A folder stands above what is in it, and hides it.
    await row(page, 'file:/repo/src/').getByRole('button').click()
    await row(page, 'a.ts').waitFor({ state: 'detached' })
    await row(page, 'file:/repo/src/').getByRole('button').click()
    await page.keyboard.press('Escape')
    await page.keyboard.press('/')
    await page.keyboard.type('repo ann')
    await row(page, 'bob').waitFor({ state: 'detached' })
    expect(await page.locator('.canvas .row').count()).toBe(1)
    await page.getByRole('button', { name: 'Holder' }).click()
    await page.getByRole('button', { name: 'Holder' }).click()
    const other = await openPage({ browser })
    await other.goto(`${server.url}/${new URL(page.url()).hash}`)
    await row(other, 'a.ts').waitFor()
    expect(await other.locator('.canvas .row').count()).toBe(1)
    await other.locator('[aria-sort=descending]', { hasText: 'Holder' }).waitFor()
    await other.locator('#filter').press('Escape')
    await row(other, 'work:x').waitFor()
    const holders = await other.locator('.canvas .cell.holder').allTextContents()
    expect(holders).toEqual(['bob', 'ann', 'ann'])
  })

  it('shows hostile names as text, each as it is spelt', async () => {
    const names = [
      '<img src=x onerror=alert(1)>',
      'safe\u202egnp.exe',
      '"\'>&amp;<b>',
      '😀 работа 作業',
      'x'.repeat(1_019),
    ]
    const { shop, page } = await browsing({ browser })
    for (const name of names) {
      const reason = ['--reason', '<script>alert(1)</script>']
      await shop.json([
        'acquire',
        `work:${name}`,
        '--holder',
        name.slice(0, 100),
        '--ttl',
        '1h',
        ...reason,
      ])
    }
    await row(page, 'onerror').waitFor()
    await expect.poll(() => page.locator('.canvas .row').count()).toBe(names.length + 1)
    const shown = await page.locator('.canvas .cell.resource bdi').allTextContents()
    const expected = names.map((name) => name.replace('\u202e', '⟨U+202E⟩'))
    expect(shown.toSorted()).toEqual(expected.toSorted())
    expect(await page.locator('.canvas img, .canvas b, .canvas script').count()).toBe(0)
  })

  it('has few rows of very many leases at once, and reaches the last of them by keyboard', async () => {
    const shop = workshop()
    await acquireMany(shop.storeUrl, { count: 10_000 })
    const server = await serve(shop)
    const page = await openPage({ browser })
    await page.goto(server.url)
    // The count is told as soon as the list is read, the rows are laid out a moment later.
    await page.locator('[role=grid][aria-rowcount="10002"]').waitFor()
    await page.getByRole('grid').focus()
    await page.keyboard.press('End')
    await row(page, '009999').waitFor()
    expect(await page.locator('.canvas .row').count()).toBeLessThan(60)
    await page.locator('#filter').fill('005000')
    await row(page, '005000').waitFor()
    expect(await page.locator('.canvas .row').count()).toBe(1)
    for (const [view, shown] of Object.entries(SHOWN_OF_MANY)) {
      await page.evaluate(`location.hash = '#/${view}'`)
      await page.getByText(shown).first().waitFor()
    }
    expect(await page.locator('.plot').count()).toBe(7)
  })
})

/** What each view says of ten thousand leases. */
const SHOWN_OF_MANY: Readonly<Record<string, string>> = {
  timeline: '10,000 lanes',
  waits: 'Nobody waits for anybody',
  fleet: 'No fleet runs on this store',
  workflow: 'No workflow is driven now',
  health: '10,000 held',
}

describe('the connection', () => {
  it('asks for a token once, keeps it in the tab alone, and says when it is wrong', async () => {
    const shop = workshop()
    const file = path.join(shop.directory, 'tokens.json')
    const made = ['tokens', 'create', '--tokens', file, '--name', 'eye', '--role', 'reader']
    const { token } = await shop.json<{ readonly token: string }>(made)
    const server = await serve(shop, ['--tokens', file])
    const page = await openPage({ browser })
    await page.goto(server.url)
    await page.getByLabel('Token').fill('tenure-wrong')
    await page.keyboard.press('Enter')
    await page.getByText('the token must be a valid one').waitFor()
    await page.getByLabel('Token').fill(token)
    await page.keyboard.press('Enter')
    await page.getByText('Nothing is held').waitFor()
    await page.reload()
    await page.getByText('Nothing is held').waitFor()
    expect(await page.context().cookies()).toEqual([])
    expect(await page.evaluate('localStorage.length')).toBe(0)
    expect(page.url()).not.toContain(token)
    const other = await page.context().newPage()
    await other.goto(server.url)
    await other.getByLabel('Token').waitFor()
  })

  it('survives a restart of the server, and misses nothing of what happened meanwhile', async () => {
    const { shop, page, server } = await browsing({ browser })
    await shop.json(['acquire', 'work:before', '--holder', 'ann', '--ttl', '1h'])
    await row(page, 'before').waitFor()
    await server.stop()
    await page.getByText('trying again').waitFor()
    await shop.json(['acquire', 'work:meanwhile', '--holder', 'bob', '--ttl', '1h'])
    await shop.json(['release', 'work:before', '--holder', 'ann'])
    await serve(shop, ['--listen', new URL(server.url).host])
    await row(page, 'meanwhile').waitFor()
    await row(page, 'before').waitFor({ state: 'detached' })
    await page.getByText('live', { exact: true }).waitFor()
  })
})

interface Violation {
  readonly id: string
  readonly impact: string
  readonly nodes: readonly { readonly html: string }[]
}

/** In the page's own world, where its policy allows no script of ours by its address. */
async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(fs.readFileSync(AXE, 'utf8'))
  const found = (await page.evaluate(
    'axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)',
  )) as Violation[]
  const serious = found.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  return serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}

type Event = { readonly event: { readonly type: string; readonly resource: string } }

async function historyOf(shop: Workshop, resource: string): Promise<readonly string[]> {
  const rows = await shop.json<readonly Event[]>(['history', resource, '--limit', '1000'])
  return rows.map(({ event }) => event.type)
}

const VIEWS = [
  'now',
  'resource?name=deploy%3Aprod',
  'timeline?span=120000',
  'waits',
  'fleet',
  'workflow',
  'ledger',
  'health',
]

it('every view shows what the ledger says while it happens, and axe finds nothing serious in light or dark', async () => {
  const { shop, server, page } = await browsing({ browser, view: '#/health', colorScheme: 'dark' })
  await page.getByText('Nothing has failed').waitFor()
  await page.getByText('live', { exact: true }).waitFor()
  const scene = await playScene(shop.storeUrl)
  const go = async (hash: string): Promise<void> =>
    void (await page.evaluate(`location.hash = '#/${hash}'`))
  await expect
    .poll(async () =>
      Number(await page.locator('.plot', { hasText: 'grants' }).locator('b').textContent()),
    )
    .toBeGreaterThan(40)
  await page.locator('td', { hasText: 'history' }).waitFor()

  await go('resource?name=deploy%3Aprod')
  await page.locator('.card', { hasText: 'ci-4713' }).getByText('release 2.4.0').waitFor()
  // By priority, not by arrival.
  await expect.poll(() => page.locator('tbody .holder').allTextContents()).toContain('ci-4714')
  const queued = await page.locator('table').first().locator('.holder').allTextContents()
  expect(queued).toEqual(['ci-4715', 'ci-4714'])
  const told = await historyOf(shop, 'deploy:prod')
  await expect.poll(() => page.locator('.events tr').count()).toBe(told.length)
  const releases = told.filter((type) => type === 'lease.released').length
  expect(releases).toBe(3)
  expect(await page.locator('.hold.released').count()).toBe(releases)

  await go('timeline?span=120000&q=deploy')
  await expect.poll(() => page.locator('.hold.released').count()).toBe(releases)
  await go('timeline?span=120000&q=import')
  for (const end of ['expired', 'revoked', 'transferred'])
    await page.locator(`.hold.${end} .mark`).first().waitFor()
  await go('timeline?span=120000&by=holder&q=shipping')
  await page.locator('.hold.deadlock .mark').waitFor()

  await go('waits')
  await page.locator('.node', { hasText: 'deploy:prod' }).waitFor()
  await page.getByText('was refused, being the last to ask').waitFor()
  expect(await page.locator('.cycle li').allTextContents()).toEqual([
    expect.stringMatching(/^billingwaits fordb:stockofshipping$/),
    expect.stringMatching(/^shippingwaits fordb:ordersofbilling$/),
  ])

  await go('fleet')
  await page.getByText('3 nodes, 24 sessions').waitFor()
  expect(await page.locator('.load .figure').allTextContents()).toEqual(['8', '8', '8'])
  await page.getByText('8 sessions', { exact: true }).waitFor()

  await go('workflow')
  const driven = page.locator('tr', { hasText: 'checkout-118' })
  expect(await driven.locator('td').nth(3).textContent()).toBe('3')
  await page.locator('tr', { hasText: 'checkout-117' }).getByText('released').waitFor()

  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme })
    for (const view of VIEWS) {
      await go(view)
      await page.locator('main').waitFor()
      expect(await violations(page), `${view} in ${colorScheme}`).toEqual([])
    }
  }
  await scene.close()
  await server.stop()
})

describe('acting', () => {
  async function asRole(role: string): Promise<{ readonly shop: Workshop; readonly page: Page }> {
    const shop = workshop()
    const file = path.join(shop.directory, 'tokens.json')
    const made = ['tokens', 'create', '--tokens', file, '--name', 'eve', '--role', role]
    const { token } = await shop.json<{ readonly token: string }>(made)
    await shop.json(['acquire', 'work:a', '--holder', 'ann', '--ttl', '1h'])
    await shop.json(['acquire', 'work:b', '--holder', 'ann', '--ttl', '1h'])
    const server = await serve(shop, ['--tokens', file])
    const page = await openPage({ browser })
    await page.goto(`${server.url}/#/resource?name=work%3Aa`)
    await page.getByLabel('Token').fill(token)
    await page.keyboard.press('Enter')
    await page.locator('.card', { hasText: 'ann' }).waitFor()
    return { shop, page }
  }

  it('is for operators: each act asks once, says what will happen, and shows what did', async () => {
    const { shop, page } = await asRole('operator')
    await page.getByRole('button', { name: 'Revoke…' }).click()
    await page.getByLabel('Reason').fill('stuck since noon')
    await page.getByText('is asked to finish and can no longer renew').waitFor()
    await page.getByRole('button', { name: 'none' }).click()
    await page.getByText('loses the lease at once').waitFor()
    await page.getByRole('button', { name: 'Revoke', exact: true }).click()
    await page.getByText('Done: ann no longer holds it').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByText('Nobody holds it').waitFor()
    const rows = await shop.json<readonly { event: Record<string, unknown> }[]>([
      'history',
      'work:a',
    ])
    expect(rows.at(-1)?.event).toMatchObject({
      type: 'lease.revoked',
      by: 'eve',
      reason: 'stuck since noon',
    })
    await page.evaluate("location.hash = '#/now?holder=ann'")
    await page.getByRole('button', { name: 'Release all…' }).click()
    await page.getByRole('button', { name: 'Release all', exact: true }).click()
    await page.getByText('Done: 1 lease of ann ended').waitFor()
    expect(await shop.json(['ls'])).toMatchObject({ leases: [] })
  })

  it('is not for readers, who see no buttons for it', async () => {
    const { page } = await asRole('reader')
    await page.getByText('work:a').first().waitFor()
    expect(await page.getByRole('button').count()).toBe(0)
    await page.evaluate("location.hash = '#/now?holder=ann'")
    await row(page, 'work:').first().waitFor()
    expect(await page.getByText('Release all').count()).toBe(0)
  })
})

it('shows the ledger of yesterday', async () => {
  const { shop, server, page } = await browsing({ browser })
  const dayMs = 86_400_000
  const yesterday = async (args: readonly string[]): Promise<void> => {
    const command = [requireTestTool('faketime'), '-f', '-1d', process.execPath, MAIN, ...args]
    const env = { TENURE_STORE: shop.storeUrl, DONT_FAKE_MONOTONIC: '1' }
    expect((await startProgram(command, { cwd: shop.directory, env }).ended).code).toBe(0)
  }
  const nowMs = Date.now()
  const fromMs = nowMs - dayMs - 60_000
  await yesterday(['acquire', 'work:old', '--holder', 'ann', '--ttl', '1h'])
  await yesterday(['release', 'work:old', '--holder', 'ann'])
  await page.goto(`${server.url}/#/timeline?from=${fromMs}&to=${fromMs + 300_000}`)
  await page
    .locator('.hold.released', { hasText: 'ann' })
    .or(page.locator('.hold.released'))
    .first()
    .waitFor()
  expect(await page.locator('.lane-name').allTextContents()).toEqual(['work:old'])
  await page.locator('.chart').focus()
  for (let press = 0; press < 12; press += 1) await page.keyboard.press('ArrowLeft')
  await page.getByText('Nothing happened in this time').waitFor()
})

it('says up to where the ledger is sealed, whether it was found whole, and who held what at a moment', async () => {
  const shop = workshop()
  const keys = ['--keys', path.join(shop.directory, 'keys.json')]
  const ledger = path.join(shop.directory, 'ledger')
  await shop.json(['keys', 'generate', ...keys])
  await shop.json(['acquire', 'work:a', '--holder', 'ann', '--ttl', '1h', '--reason', 'first'])
  const held = Date.now()
  await shop.json(['release', 'work:a', '--holder', 'ann'])
  await shop.json(['acquire', 'work:a', '--holder', 'bob', '--ttl', '1h'])
  await shop.json(['ledger', 'seal', '--ledger', ledger, ...keys])
  const server = await serve(shop, ['--ledger', ledger, ...keys])
  const page = await openPage({ browser })
  await page.goto(`${server.url}/#/ledger`)
  await page.getByText('Whole: nothing was changed or left out').waitFor()
  await page.getByText('3 events, checkpoint 1').waitFor()
  const local = new Date(held - new Date(held).getTimezoneOffset() * 60_000)
    .toISOString()
    .slice(0, 23)
  await page.evaluate(`location.hash = '#/ledger?name=work%3Aa&at=${local}'`)
  await page.locator('tr', { hasText: 'ann' }).getByText('released').waitFor()
  expect(await page.locator('tbody tr').count()).toBe(1)
  await page.evaluate("location.hash = '#/ledger?name=work%3Aa&at=2020-01-01T00:00'")
  await page.getByText('Nobody held it').waitFor()
})
