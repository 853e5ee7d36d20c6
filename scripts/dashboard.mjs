/**
 * Builds the dashboard: `src/dashboard` into `dist/dashboard`, with names that change with the content, and each file
 * compressed beside itself, so that a server need not do it. What has not changed is not built again.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { ROOT } from './setup.mjs'

const SOURCE = join(ROOT, 'src/dashboard')
const OUTPUT = join(ROOT, 'dist/dashboard')
/** What the page is made of. */
const SOURCES = ['src/dashboard', 'src/protocol', 'src/core']
const COMPRESSED = /\.(js|css|html|svg)$/

/** @returns {Promise<import('./steps.mjs').StepResult>} */
export async function buildDashboard() {
  const stampFile = join(ROOT, 'node_modules/.tenure-dashboard')
  const wanted = fingerprint()
  const isBuilt = existsSync(join(OUTPUT, 'index.html.br')) && existsSync(stampFile)
  if (isBuilt && readFileSync(stampFile, 'utf8') === wanted) return { passed: true, output: '' }
  try {
    await bundle()
  } catch (error) {
    return { passed: false, output: `${error instanceof Error ? error.message : String(error)}\n` }
  }
  for (const name of filesBelow(OUTPUT).filter((file) => COMPRESSED.test(file))) compress(name)
  writeFileSync(stampFile, wanted)
  return { passed: true, output: '' }
}

async function bundle() {
  // Loaded here: this file is loaded before anything is installed.
  const { build } = await import('vite')
  await build({
    configFile: false,
    root: SOURCE,
    base: './',
    logLevel: 'warn',
    build: {
      outDir: OUTPUT,
      emptyOutDir: true,
      target: 'es2022',
      assetsInlineLimit: 0,
      cssCodeSplit: false,
      modulePreload: false,
      reportCompressedSize: false,
    },
  })
}

/** @param {string} file */
function compress(file) {
  const content = readFileSync(file)
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  writeFileSync(`${file}.br`, brotliCompressSync(content, { params }))
  writeFileSync(`${file}.gz`, gzipSync(content, { level: 9 }))
}

function fingerprint() {
  const hash = createHash('sha256')
  const folders = SOURCES.map((folder) => join(ROOT, folder))
  const files = [
    ...folders.flatMap(filesBelow),
    join(ROOT, 'package-lock.json'),
    import.meta.filename,
  ]
  for (const file of files)
    hash.update(file.slice(ROOT.length)).update('\0').update(readFileSync(file))
  return hash.digest('hex')
}

/**
 * @param {string} folder
 * @returns {string[]}
 */
function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => {
      const file = join(folder, entry.name)
      return entry.isDirectory() ? filesBelow(file) : [file]
    })
    .toSorted()
}
