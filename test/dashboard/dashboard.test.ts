/** The dashboard in a real browser, before a real server on SQLite, while real processes take leases. */
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { LeaseManager } from '../../src/fleet/contract.ts'
import { openLeaseManager } from '../../src/open-fleet.ts'
import { freshRedis } from '../servers/shared-servers.ts'
import { newWorkshopDirectory, workshop, workshopIn, type Workshop } from '../cli/tenure-process.ts'
import {
  go,
  launchBrowser,
  openPage,
  row,
  serve,
  startServing,
  type PageOptions,
  type Serving,
} from './browsing.ts'
import { localMoment } from './scene.ts'
import { LOOKS, openWorld, type World } from './world.ts'

const BUILT = fileURLToPath(new URL('../../dist/dashboard/', import.meta.url))
const AXE = fileURLToPath(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url))

let browser: Browser
/** One server for all tests that need no other, each in a namespace of its own. */
let home: Serving
/** Plays while other tests run: it is waiting most of its time. */
let opening: Promise<World>
const homeDirectory = newWorkshopDirectory()
let namespaces = 0

beforeAll(async () => {
  const [launched, served] = await Promise.all([
    launchBrowser(),
    startServing(workshopIn(homeDirectory)),
  ])
  browser = launched
  home = served
  opening = openWorld(browser)
  // No fault: the tests that look at it hear it.
  opening.catch(() => undefined)
})

afterAll(async () => {
  try {
    await (await opening).close()
  } finally {
    await Promise.all([browser.close(), home.stop()])
  }
  fs.rmSync(homeDirectory, { recursive: true, force: true })
})

/** An empty namespace, and a page that shows it. */
async function browsing(
  options: Omit<PageOptions, 'browser' | 'namespace'> = {},
): Promise<{ readonly shop: Workshop; readonly page: Page; readonly namespace: string }> {
  const namespace = `test-${(namespaces += 1)}`
  const shop = workshopIn(homeDirectory, namespace)
  const page = await openPage({ ...options, browser, namespace })
  await page.goto(home.url)
  return { shop, page, namespace }
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
    const { url } = home
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
    const { shop, page } = await browsing()
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
    const { shop, page, namespace } = await browsing()
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
    const other = await openPage({ browser, namespace })
    await other.goto(`${home.url}/${new URL(page.url()).hash}`)
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
    const { shop, page } = await browsing()
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

  it('is live in the tab that is looked at, however many are open in one browser', async () => {
    const { shop, page } = await browsing()
    const tabs = [page]
    await page.locator('.connection.live').waitFor()
    // A browser opens six connections to a server.
    while (tabs.length < 8) {
      await show(tabs.at(-1), 'hidden')
      const tab = await page.context().newPage()
      await tab.goto(home.url)
      await tab.locator('.connection.live').waitFor()
      tabs.push(tab)
    }
    await shop.json(['acquire', 'work:a', '--holder', 'ann', '--ttl', '1h'])
    const [last] = tabs.slice(-1)
    if (last !== undefined) await row(last, 'work:a').waitFor()
    expect(await row(page, 'work:a').count()).toBe(0)
    await show(page, 'visible')
    await row(page, 'work:a').waitFor()
    await page.locator('.connection.live').waitFor()
  })

  it('never says that there is nothing while there is something', async () => {
    const { shop, page } = await browsing()
    for (const name of ['a', 'b', 'c']) {
      await shop.json(['acquire', `work:${name}`, '--holder', 'ann', '--ttl', '1h'])
    }
    await row(page, 'ann').nth(2).waitFor()
    await page.addInitScript(RECORD_WORDS)
    await page.reload()
    await row(page, 'ann').nth(2).waitFor()
    const said = (await page.evaluate('said')) as string[]
    expect(said).toContain('3 held, 0 waiting')
    expect(said.filter((words) => /No lease matches|Nothing is held|0 of/.test(words))).toEqual([])
  })
})

describe('a question that has no answer', () => {
  it('says why: what was typed is no resource', async () => {
    const { page } = await browsing()
    await go(page, 'ledger?name=deploy&at=2020-01-01T00:00')
    await page.getByText('resource must be kind:name').waitFor()
  })

  it('is asked again when its answer was cut off', async () => {
    const { shop, page } = await browsing()
    await shop.json(['acquire', 'work:a', '--holder', 'ann', '--ttl', '1h'])
    let cuts = 0
    await page.route('**/v1/resources?*', async (route) => {
      if ((cuts += 1) > 1) return route.continue()
      return route.fulfill({ contentType: 'application/json', body: '{"resource":"work' })
    })
    await go(page, 'resource?name=work%3Aa')
    await page.locator('.card', { hasText: 'ann' }).waitFor()
    expect(cuts).toBeGreaterThan(1)
  })
})

/** As when another tab of the window is chosen, or this one again. */
async function show(page: Page | undefined, state: 'visible' | 'hidden'): Promise<void> {
  await page?.evaluate(`
    Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  `)
}

/** Everything that the list says of itself, whenever it changes. */
const RECORD_WORDS = `
  globalThis.said = []
  new MutationObserver(() => {
    for (const element of document.querySelectorAll('.counts, .empty')) said.push(element.textContent)
  }).observe(document, { childList: true, characterData: true, subtree: true })
`

interface Violation {
  readonly id: string
  readonly impact: string
  readonly nodes: readonly { readonly html: string }[]
}

/** In the page's own world, where its policy allows no script of ours by its address. */
async function violations(page: Page): Promise<readonly string[]> {
  const isThere = await page.evaluate("'axe' in globalThis")
  if (isThere !== true) await page.evaluate(fs.readFileSync(AXE, 'utf8'))
  const found = (await page.evaluate(
    'axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)',
  )) as Violation[]
  const serious = found.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  return serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}

const VIEWS = [
  ...['now', 'resource?name=deploy%3Aprod', 'timeline?span=120000', 'waits', 'fleet', 'workflow'],
  ...['ledger', 'health'],
]

type Event = { readonly event: { readonly type: string; readonly resource: string } }

async function historyOf(shop: Workshop, resource: string): Promise<readonly string[]> {
  const rows = await shop.json<readonly Event[]>(['history', resource, '--limit', '1000'])
  return rows.map(({ event }) => event.type)
}

/** With 10,000 leases and yesterday's ledger, while events arrive. */
describe('every view', () => {
  let world: World
  let shop: Workshop
  let page: Page
  let yesterdayMs = 0
  let stamps = 0

  beforeAll(async () => {
    world = await opening
    ;({ shop, page, yesterdayMs } = world)
  })

  async function see(view: string): Promise<void> {
    await LOOKS[view]?.(world, `stamp-${(stamps += 1)}`)
  }

  it.each(Object.keys(LOOKS))('shows past, present and what happens meanwhile: %s', see)

  it('shows what the ledger says', async () => {
    await go(page, 'resource?name=deploy%3Aprod')
    // By priority, not by arrival.
    await expect.poll(() => page.locator('tbody .holder').allTextContents()).toContain('ci-4714')
    const queued = await page.locator('table').first().locator('.holder').allTextContents()
    expect(queued).toEqual(['ci-4715', 'ci-4714'])
    const told = await historyOf(shop, 'deploy:prod')
    await expect.poll(() => page.locator('.events tr').count()).toBe(told.length)
    expect(told.filter((type) => type === 'lease.released').length).toBe(3)

    const rows = await shop.json<readonly { event: { atMs: number } }[]>(['history', 'deploy:prod'])
    const fromMs = (rows[0]?.event.atMs ?? 0) - 1_000
    await go(page, `timeline?q=deploy&from=${fromMs}&to=${fromMs + 15_000}`)
    // Who held it before is read, not pointed at.
    await expect
      .poll(async () => (await page.locator('.hold .label').allTextContents()).toSorted())
      .toEqual([0, 1, 2, 3, 4, 5].map((index) => `ci-471${index}`))
    await go(page, 'timeline?span=600000&q=import')
    for (const end of ['expired', 'revoked', 'transferred'])
      await page.locator(`.hold.${end} .mark`).first().waitFor()
    await go(page, 'timeline?span=600000&by=holder&q=shipping')
    await page.locator('.hold.deadlock .mark').waitFor()
    await go(page, 'waits')
    await page.locator('.cycle').first().waitFor()
    // A cycle has no beginning: it is written from whichever request the search came to first.
    const steps = await page.locator('.cycle').first().locator('li').allTextContents()
    expect(steps.toSorted()).toEqual([
      expect.stringMatching(/^billingwaits fordb:stockofshipping$/),
      expect.stringMatching(/^shippingwaits fordb:ordersofbilling$/),
    ])
    await go(page, 'fleet')
    await expect
      .poll(() => page.locator('.load .figure').allTextContents())
      .toEqual(['8', '8', '8'])
    await page.getByText('8 sessions', { exact: true }).waitFor()
    await go(page, 'workflow')
    const driven = page.locator('tr', { hasText: 'checkout-118' })
    expect(await driven.locator('td').nth(3).textContent()).toBe('3')
  })

  it('shows what was derived, what waits to be exclusive, and who was asked to finish', async () => {
    await go(page, 'resource?name=project%3Adocs')
    const derived = page.locator('.section', { hasText: 'Derived leases' })
    const writer = derived.locator('tr', { hasText: 'writer-2' })
    await writer.waitFor()
    const cells = await writer.locator('td').allTextContents()
    expect(cells.slice(1, 4)).toEqual([
      'project:docs',
      'edit',
      '20,000 of 20,000 tokens, 50 of 50 toolCalls',
    ])
    await go(page, 'resource?name=table%3Aorders')
    await page.locator('.card', { hasText: 'report-1' }).getByText('waits to be alone').waitFor()
    await go(page, 'resource?name=work%3Aimport-7')
    const asked = page.locator('.card', { hasText: 'importer-1' })
    await asked.getByText('by oncall').waitFor()
    await asked.locator('.mark.revoking').waitFor()
  })

  it('moves over the ledger of yesterday, and says who held what at a moment of it', async () => {
    await go(page, `ledger?name=work%3Aold&at=${localMoment(yesterdayMs)}`)
    await page.locator('tr', { hasText: 'ann' }).getByText('released').waitFor()
    expect(await page.locator('tbody tr').count()).toBe(1)
    await go(page, 'ledger?name=work%3Aold&at=2020-01-01T00:00')
    await page.getByText('No holder at').waitFor()
    await go(page, `timeline?q=old&from=${yesterdayMs - 60_000}&to=${yesterdayMs + 60_000}`)
    await page.locator('.lane-name', { hasText: 'work:old' }).waitFor()
    await page.locator('.chart').focus()
    for (let press = 0; press < 12; press += 1) await page.keyboard.press('ArrowLeft')
    await page.getByText('Nothing happened in this time').waitFor()
  })

  it('has nothing serious for axe, in light and in dark', async () => {
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme })
      for (const view of VIEWS) {
        await go(page, view)
        await page.locator('main').waitFor()
        expect(await violations(page), `${view} in ${colorScheme}`).toEqual([])
      }
    }
  })

  it('has few rows of very many leases at once, and reaches the last of them by keyboard', async () => {
    await go(page, 'health')
    await page.getByText(/^10,0\d\d held/).waitFor()
    await go(page, 'timeline?span=3600000')
    await page.getByText(/10,0\d\d lanes/).waitFor()
    await go(page, 'now')
    await row(page, 'deploy:').first().waitFor()
    await page.getByRole('grid').focus()
    await page.keyboard.press('End')
    await row(page, '19999').waitFor()
    expect(await page.locator('.canvas .row').count()).toBeLessThan(60)
    await page.locator('#filter').fill('15000')
    await row(page, '15000').waitFor()
    expect(await page.locator('.canvas .row').count()).toBe(1)
  })

  it('survives a restart of the server, and misses nothing of what happened meanwhile', async () => {
    await shop.json(['acquire', 'work:before', '--holder', 'ann', '--ttl', '1h'])
    await go(page, 'now?q=ann')
    await row(page, 'before').waitFor()
    await world.stopServer()
    await page.getByText('trying again').waitFor()
    await shop.json(['acquire', 'work:meanwhile', '--holder', 'ann', '--ttl', '1h'])
    await shop.json(['release', 'work:before', '--holder', 'ann'])
    await world.startServer()
    await row(page, 'meanwhile').waitFor()
    await row(page, 'before').waitFor({ state: 'detached' })
    await page.locator('.connection.live').waitFor()
  })

  it.each(Object.keys(LOOKS))('shows past, present and what happens after the restart: %s', see)
})

it('shows a fleet on keys of polling services, with its sessions as they move', async () => {
  const redis = await freshRedis()
  onTestFinished(() => redis.remove())
  const instance = async (name: string): Promise<LeaseManager> => {
    const instanceId = `${name}-1736598400000000000-a1b2c3d4`
    const manager = await openLeaseManager(redis.url, { instanceId, name })
    await manager.start()
    onTestFinished(() => manager.stop())
    return manager
  }
  const session = '11111111-2222-4333-8444-555555555555'
  const [one, other, server, page] = await Promise.all([
    instance('api-1'),
    instance('api-2'),
    serve(workshop(), ['--store', redis.url]),
    openPage({ browser }),
  ])
  expect(await one.tryAcquire(session)).toBe(true)
  await page.goto(`${server.url}/#/fleet`)
  await page.getByText('On keys of polling services: 2 nodes, 1 session').waitFor()
  const card = (name: string): ReturnType<Page['locator']> =>
    page.locator('.card', { hasText: name })
  await card('api-1').getByText(session).waitFor()
  await one.release(session)
  expect(await other.tryAcquire(session)).toBe(true)
  await card('api-2').getByText(session).waitFor()
  expect(await violations(page)).toEqual([])
})

describe('where the server has tokens', () => {
  const WORDS = { eye: 'reader', eve: 'operator' } as const

  /** A server with a token for a reader and one for an operator, and leases of ann. */
  async function guarded(): Promise<{
    readonly shop: Workshop
    readonly server: Serving
    readonly tokens: Readonly<Record<keyof typeof WORDS, string>>
  }> {
    const shop = workshop()
    const file = path.join(shop.directory, 'tokens.json')
    const tokens = { eye: '', eve: '' }
    for (const name of ['eye', 'eve'] as const) {
      const made = ['tokens', 'create', '--tokens', file, '--name', name, '--role', WORDS[name]]
      tokens[name] = (await shop.json<{ readonly token: string }>(made)).token
    }
    for (const name of ['a', 'b', 'c']) {
      await shop.json(['acquire', `work:${name}`, '--holder', 'ann', '--ttl', '1h'])
    }
    return { shop, server: await serve(shop, ['--tokens', file]), tokens }
  }

  async function enter(page: Page, token: string): Promise<void> {
    await page.getByLabel('Token').fill(token)
    await page.keyboard.press('Enter')
  }

  async function seriousInBoth(page: Page): Promise<readonly string[]> {
    const found: string[] = []
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme })
      found.push(...(await violations(page)))
    }
    return found
  }

  it('asks for one once, keeps it in the tab alone, and shows readers no buttons', async () => {
    const { server, tokens } = await guarded()
    const page = await openPage({ browser })
    await page.goto(`${server.url}/#/resource?name=work%3Aa`)
    await enter(page, 'tenure-wrong')
    await page.getByText('the token must be a valid one').waitFor()
    expect(await seriousInBoth(page)).toEqual([])
    await enter(page, tokens.eye)
    await page.locator('.card', { hasText: 'ann' }).waitFor()
    await page.reload()
    await page.locator('.card', { hasText: 'ann' }).waitFor()
    expect(await page.context().cookies()).toEqual([])
    expect(await page.evaluate('localStorage.length')).toBe(0)
    expect(page.url()).not.toContain(tokens.eye)
    expect(await page.getByRole('button').count()).toBe(0)
    await go(page, 'now?holder=ann')
    await row(page, 'work:').first().waitFor()
    expect(await page.getByText('Release all').count()).toBe(0)
    const other = await page.context().newPage()
    await other.goto(server.url)
    await other.getByLabel('Token').waitFor()
  })

  it('shows the next token nothing of what the one before was told', async () => {
    const { shop, server } = await guarded()
    const file = ['--tokens', path.join(shop.directory, 'tokens.json')]
    const make = async (name: string, namespace: string): Promise<string> => {
      const asked = ['--name', name, '--role', 'reader', '--namespace', namespace]
      const made = await shop.json<{ token: string }>(['tokens', 'create', ...file, ...asked])
      return made.token
    }
    const [one, other] = [await make('one', 'default'), await make('other', 'elsewhere')]
    const page = await openPage({ browser })
    await page.goto(`${server.url}/#/health`)
    await enter(page, one)
    await page.getByText('3 held, 0 waiting').waitFor()
    const grants = page.locator('figcaption', { hasText: 'grants' }).locator('b')
    await shop.json(['acquire', 'work:d', '--holder', 'ann', '--ttl', '1h'])
    await page.getByText('4 held, 0 waiting').waitFor()
    await expect.poll(() => grants.textContent()).not.toBe('0')
    await shop.json(['tokens', 'revoke', 'one', ...file])
    await enter(page, other)
    await page.getByText('elsewhere · reader').waitFor()
    expect(await grants.textContent()).toBe('0')
  })

  it('lets operators act: each act asks once, says what will happen, and shows what did', async () => {
    const { shop, server, tokens } = await guarded()
    const page = await openPage({ browser })
    await page.goto(`${server.url}/#/resource?name=work%3Aa`)
    await enter(page, tokens.eve)
    await page.getByRole('button', { name: 'Revoke…' }).click()
    await page.getByText('is asked to finish and can no longer renew').waitFor()
    expect(await seriousInBoth(page)).toEqual([])
    await page.getByRole('button', { name: 'Revoke', exact: true }).click()
    await page.getByText('Done: ann was asked to finish, and has 1 m for it').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()
    await page.locator('.card', { hasText: 'asked to finish' }).getByText('by eve').waitFor()

    await go(page, 'resource?name=work%3Ab')
    await page.getByRole('button', { name: 'Revoke…' }).click()
    await page.getByLabel('Reason').fill('stuck since noon')
    await page.getByRole('button', { name: 'none' }).click()
    await page.getByText('loses the lease at once').waitFor()
    await page.getByRole('button', { name: 'Revoke', exact: true }).click()
    await page.getByText('Done: ann no longer holds it').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByText('No holder.').waitFor()
    const rows = await shop.json<readonly { event: Record<string, unknown> }[]>([
      ...['history', 'work:b'],
    ])
    expect(rows.at(-1)?.event).toMatchObject({
      ...{ type: 'lease.revoked', by: 'eve', reason: 'stuck since noon' },
    })

    await go(page, 'now?holder=ann')
    await page.getByRole('button', { name: 'Release all…' }).click()
    expect(await seriousInBoth(page)).toEqual([])
    await page.getByRole('button', { name: 'Release all', exact: true }).click()
    await page.getByText('Done: 2 leases of ann ended').waitFor()
    expect(await shop.json(['ls'])).toMatchObject({ leases: [] })
  })
})
