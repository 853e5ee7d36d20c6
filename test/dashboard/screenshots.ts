/**
 * `npm run screenshots`: the pictures of docs/dashboard.md, of a small world that is played for them. They look best where
 * the fonts Inter and JetBrains Mono are installed.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium, type Browser } from 'playwright-core'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { localMoment, playScene } from './scene.ts'

/** This program runs where it is compiled to: `dist-dev/test/dashboard`. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const PICTURES = path.join(ROOT, 'docs/dashboard')
const SIZE = { width: 1180, height: 660 }
const PHONE = { width: 390, height: 700 }
const SETTLED_MS = 1_500
/** In the played world, somebody held what the ledger is asked for. */
const PAST_MS = 4_000

const VIEWS: readonly (readonly [string, string])[] = [
  ['now', '#/now'],
  ['resource', '#/resource?name=deploy%3Aprod'],
  ['timeline', '#/timeline?span=30000'],
  ['waits', '#/waits'],
  ['fleet', '#/fleet'],
  ['workflow', '#/workflow'],
]

async function main(): Promise<void> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-pictures-'))
  const store = `sqlite:${path.join(directory, 'tenure.db')}`
  const cli = path.join(ROOT, 'dist/cli/main.js')
  const sealing = [
    ...['--ledger', path.join(directory, 'ledger')],
    '--keys',
    path.join(directory, 'keys.json'),
  ]
  const tenure = (...args: readonly string[]): void => {
    execFileSync(process.execPath, [cli, ...args], { env: { ...process.env, TENURE_STORE: store } })
  }
  tenure('keys', 'generate', ...sealing.slice(2))
  const served = ['serve', '--store', store, '--listen', '127.0.0.1:0', '--operator', ...sealing]
  const server = spawn(process.execPath, [cli, ...served], { stdio: ['ignore', 'pipe', 'ignore'] })
  const [line] = (await once(server.stdout, 'data')) as [Buffer]
  const url = line.toString().trim()
  const browser = await chromium.launch({
    ...{ executablePath: requireTestTool('chromium'), args: ['--no-sandbox'] },
  })
  fs.mkdirSync(PICTURES, { recursive: true })
  try {
    // The plots of Health begin when the page is opened.
    const watched = await browser.newPage({ viewport: SIZE })
    await watched.goto(`${url}/#/health`)
    const startMs = Date.now()
    const scene = await playScene(store)
    tenure('ledger', 'seal', ...sealing)
    const moment = localMoment(startMs + PAST_MS).slice(0, 'yyyy-mm-ddThh:mm:ss'.length)
    const views = [...VIEWS, ['ledger', `#/ledger?name=deploy%3Aprod&at=${moment}`] as const]
    for (const scheme of ['light', 'dark'] as const) {
      await watched.emulateMedia({ colorScheme: scheme })
      await watched.screenshot({ path: path.join(PICTURES, `health-${scheme}.png`) })
      await takeAll({ browser, url, scheme, views })
    }
    await scene.close()
  } finally {
    await browser.close()
    server.kill('SIGTERM')
    await once(server, 'close')
    fs.rmSync(directory, { recursive: true })
  }
}

interface Taken {
  readonly browser: Browser
  readonly url: string
  readonly scheme: 'light' | 'dark'
  readonly views: readonly (readonly [string, string])[]
}

async function takeAll({ browser, url, scheme, views }: Taken): Promise<void> {
  const page = await browser.newPage({ viewport: SIZE, colorScheme: scheme, locale: 'en-GB' })
  for (const [name, hash] of views) {
    await page.goto(`${url}/${hash}`)
    await page.waitForTimeout(SETTLED_MS)
    await page.screenshot({ path: path.join(PICTURES, `${name}-${scheme}.png`) })
  }
  await page.setViewportSize(PHONE)
  await page.goto(`${url}/#/now`)
  await page.waitForTimeout(SETTLED_MS)
  await page.screenshot({ path: path.join(PICTURES, `phone-${scheme}.png`) })
  await page.close()
}

await main()
