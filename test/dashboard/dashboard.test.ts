/** The dashboard in a real browser, before a real server on SQLite, while real processes take leases. */
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { workshop } from '../cli/tenure-process.ts'
import { acquireMany, browsing, launchBrowser, openPage, serve } from './browsing.ts'

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
    await page.getByText('10,000', { exact: true }).waitFor()
    await page.getByRole('grid').focus()
    await page.keyboard.press('End')
    await row(page, '009999').waitFor()
    expect(await page.locator('.canvas .row').count()).toBeLessThan(60)
    expect(await page.locator('[role=grid]').getAttribute('aria-rowcount')).toBe('10002')
    await page.locator('#filter').fill('005000')
    await row(page, '005000').waitFor()
    expect(await page.locator('.canvas .row').count()).toBe(1)
  })
})

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
    'axe.run().then(({ violations }) => violations)',
  )) as Violation[]
  const serious = found.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  return serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}

describe('axe', () => {
  it.each(['light', 'dark'] as const)('finds nothing serious in %s', async (colorScheme) => {
    const { shop, page } = await browsing({ browser, colorScheme })
    await shop.json(['acquire', 'file:/repo/a.ts', '--holder', 'ann', '--ttl', '1h'])
    await shop.json([
      'acquire',
      'file:/repo/b.ts',
      '--holder',
      'ann',
      '--ttl',
      '1h',
      '--reason',
      'why',
    ])
    await row(page, 'a.ts').waitFor()
    expect(await violations(page)).toEqual([])
  })
})
