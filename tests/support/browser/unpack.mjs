// Unpacks Chromium with its fonts and libraries out of npm's package, into the folder that TMPDIR names: the package's own
// functions write wherever the temporary folder is. Without root, without a download.
import chromium, { inflate } from "@sparticuz/chromium";
import { join } from "node:path";

await chromium.executablePath();
await inflate(join("node_modules", "@sparticuz", "chromium", "bin", "al2023.tar.br")); // libnss3, libnspr4, libexpat
