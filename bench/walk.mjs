/**
 * Counts the files and folder borders of three walks through `dist`, from real runs: `tenure.acquire` on SQLite,
 * `lease.release` on Redis, and one automatic renewal. `node bench/walk.mjs` prints a line for each; with `--files`
 * also the files in the order in which the run first enters them.
 *
 * Every function of `dist` is instrumented when it is loaded: it records its file when it is called. The files of a walk
 * are those whose functions run between the call and its answer. A border is passed where the next file that is entered
 * for the first time lies in another folder of `src`.
 */
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import { register } from 'node:module'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const DIST = fileURLToPath(new URL('../dist/', import.meta.url))

/** The hook that `register` runs in its own thread: instruments the files of `dist`. */
const HOOK = `
import { parseAst } from 'vite'
const DIST = ${JSON.stringify(pathToFileURL(DIST).href)}
export async function load(url, context, next) {
  const loaded = await next(url, context)
  if (!url.startsWith(DIST) || loaded.format !== 'module') return loaded
  return { ...loaded, source: instrument(String(loaded.source), url.slice(DIST.length)) }
}
function instrument(source, file) {
  const text = source.replace(/^#!/, '//')
  const mark = '__walk(' + JSON.stringify(file) + ')'
  const edits = []
  const visit = (node) => {
    if (node === null || typeof node !== 'object') return
    if (Array.isArray(node)) return node.forEach(visit)
    if (/Function/.test(node.type ?? '') && node.body != null) {
      if (node.body.type === 'BlockStatement') edits.push([node.body.start + 1, mark + ';'])
      else edits.push([node.body.start, '(' + mark + ',('], [node.body.end, '))'])
    }
    for (const key in node) if (key !== 'parent') visit(node[key])
  }
  visit(parseAst(text))
  // From the end to the beginning, so that earlier offsets stay valid; at one offset the inner function comes first.
  edits.sort((a, b) => b[0] - a[0])
  let result = text
  for (const [at, words] of edits) result = result.slice(0, at) + words + result.slice(at)
  return 'const __walk = globalThis.__tenureWalk;' + result
}
`

/** @type {Set<string> | null} */
let entered = null
/** The walk begins when this file is entered; null: it has begun. @type {string | null} */
let beginning = null
/** @param {string} file */
const enter = (file) => {
  if (file === beginning) beginning = null
  if (beginning === null) entered?.add(file)
}
Object.assign(globalThis, { __tenureWalk: enter })
const here = new URL('.', import.meta.url)
register(
  `data:text/javascript,${encodeURIComponent(HOOK.replace("from 'vite'", `from '${import.meta.resolve('vite')}'`))}`,
  here,
)

/**
 * The files that are entered while `work` runs, from `first` on, in order.
 *
 * @param {() => Promise<unknown>} work
 * @param {string | null} first
 */
async function filesOf(work, first = null) {
  entered = new Set()
  beginning = first
  await work()
  const files = [...entered]
  entered = null
  return files
}

/** @param {string} file */
function folderOf(file) {
  return file.includes('/') ? file.slice(0, file.indexOf('/')) : 'root'
}

/**
 * @param {string} name
 * @param {readonly string[]} files
 */
function show(name, files) {
  const borders = files.filter(
    (file, at) => at > 0 && folderOf(file) !== folderOf(files[at - 1] ?? ''),
  )
  const folders = new Set(files.map(folderOf))
  process.stdout.write(
    `${name}: ${files.length} files, ${borders.length} borders, ${folders.size} folders\n`,
  )
  if (process.argv.includes('--files'))
    for (const file of files) process.stdout.write(`  ${file}\n`)
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = /** @type {net.AddressInfo} */ (server.address())
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** @param {(url: string) => Promise<void>} work */
async function withRedis(work) {
  const port = await freePort()
  const options = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
  ]
  const server = spawn('redis-server', options, { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise((/** @type {(value?: unknown) => void} */ resolve, reject) => {
    server.once('error', reject)
    server.stdout.on('data', (text) => String(text).includes('Ready to accept') && resolve())
  })
  try {
    await work(`redis://127.0.0.1:${port}`)
  } finally {
    server.kill()
  }
}

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-walk-'))
const { openTenure } = await import(pathToFileURL(path.join(DIST, 'index.js')).href)

/**
 * @param {string} name
 * @param {string} url
 */
async function walks(name, url) {
  const tenure = await openTenure(url, { holder: 'walker' })
  // The first request of a client also prepares statements, scripts and subscriptions.
  await (await tenure.acquire('work:W-0', { ttlMs: 60_000 })).release()
  /** @type {import('../dist/index.js').Lease[]} */
  const leases = []
  show(
    `acquire, ${name}`,
    await filesOf(async () => leases.push(await tenure.acquire('work:W-1', { ttlMs: 60_000 }))),
  )
  show(`release, ${name}`, await filesOf(async () => leases[0]?.release()))
  const renewed = await tenure.acquire('work:W-2', { ttlMs: 1_800 })
  // What the acquire has left to do in the background is no part of the renewal.
  await new Promise((resolve) => setTimeout(resolve, 300))
  show(
    `renewal, ${name}`,
    await filesOf(
      async () => new Promise((resolve) => renewed.on('renewed', () => setImmediate(resolve))),
      // Until the loop runs, nothing happens but the wait for it.
      'client/renewal-scheduler.js',
    ),
  )
  await renewed.release()
  await tenure.close()
}

// A renewal does not keep the process alive.
const keepAlive = setInterval(() => undefined, 1_000)
try {
  await walks('SQLite', `sqlite:${path.join(directory, 'walk.db')}`)
  await withRedis((url) => walks('Redis', url))
} finally {
  clearInterval(keepAlive)
  fs.rmSync(directory, { recursive: true, force: true })
}
